"""The networks of Shi et al., 2016 (arXiv:1608.07249), as the authors' repository hclhkbu/dlbench has them, without torchvision.

FCN-S, AlexNet-S: synthetic/experiments/torch. FCN-R, AlexNet-R: tools/torch/Models. LSTM: synthetic/experiments/tensorflow/rnn/lstm.
ResNet-50 and ResNet-56: He et al., arXiv:1512.03385, the first with the stride in the 3 x 3 convolution, as torchvision has it.
"""


def fully_connected(torch, *sides):
    """Linear layers with sigmoids between them."""
    nn, layers = torch.nn, []
    for one, other in zip(sides, sides[1:]):  # noqa: B905, RUF007 - the host's Python may be older than the keyword and than pairwise
        layers += [nn.Linear(one, other), nn.Sigmoid()]
    return nn.Sequential(*layers[:-1])


def fcn_s(torch):
    """118 million weights."""
    return fully_connected(torch, 26752, 2048, 2048, 2048, 26752)


def fcn_r(torch):
    """14 million weights, for MNIST."""
    return fully_connected(torch, 784, 2048, 4096, 1024, 10)


def convolutions(torch, *rows):
    """Each row: channels in and out, kernel, stride, padding, and what pools after it."""
    nn, layers = torch.nn, []
    for inside, outside, kernel, stride, padding, pool in rows:
        layers += [nn.Conv2d(inside, outside, kernel, stride, padding), nn.ReLU(inplace=True)]
        layers += [pool(3, 2)] if pool else []
    return layers


def alexnet_s(torch):
    """AlexNet of "One weird trick" with the larger first layers, for ImageNet."""
    nn = torch.nn
    pool = nn.MaxPool2d
    rows = [
        (3, 96, 11, 4, 2, pool),
        (96, 256, 5, 1, 2, pool),
        (256, 384, 3, 1, 1, None),
        (384, 384, 3, 1, 1, None),
        (384, 256, 3, 1, 1, pool),
    ]
    ends = [nn.Flatten(), nn.Linear(9216, 4096), nn.ReLU(inplace=True), nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Linear(4096, 1000)]
    return nn.Sequential(*convolutions(torch, *rows), *ends)


def alexnet_r(torch):
    """Three convolutions, for CIFAR-10."""
    nn = torch.nn
    rows = [(3, 32, 5, 1, 2, nn.MaxPool2d), (32, 32, 5, 1, 2, nn.MaxPool2d), (32, 64, 5, 1, 2, nn.AvgPool2d)]
    return nn.Sequential(*convolutions(torch, *rows), nn.Flatten(), nn.Linear(576, 10))


def residual(torch, body, shortcut):
    """A block whose result is its body's plus its shortcut's."""

    class Residual(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.shortcut = body, shortcut

        def forward(self, given):
            return torch.nn.functional.relu(self.body(given) + self.shortcut(given), inplace=True)

    return Residual()


def normed(torch, inside, outside, kernel, *, stride=1, active=True):
    """A convolution with its normalisation."""
    nn = torch.nn
    layers = [nn.Conv2d(inside, outside, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outside)]
    return layers + ([nn.ReLU(inplace=True)] if active else [])


def resnet50(torch):
    """Bottlenecks of 3, 4, 6 and 3 blocks: 25.6 million weights."""
    nn = torch.nn
    layers, inside = [*normed(torch, 3, 64, 7, stride=2), nn.MaxPool2d(3, 2, 1)], 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            outside = 4 * width
            parts = [
                *normed(torch, inside, width, 1),
                *normed(torch, width, width, 3, stride=stride),
                *normed(torch, width, outside, 1, active=False),
            ]
            short = (
                nn.Sequential(*normed(torch, inside, outside, 1, stride=stride, active=False))
                if inside != outside or stride > 1
                else nn.Identity()
            )
            layers.append(residual(torch, nn.Sequential(*parts), short))
            inside = outside
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 1000))


def resnet56(torch):
    """Three times nine blocks of two convolutions, for CIFAR-10: 0.85 million weights."""
    nn = torch.nn
    layers, inside = normed(torch, 3, 16, 3), 16
    for stage in range(3):
        width = 16 << stage
        for block in range(9):
            stride = 2 if stage and not block else 1
            parts = [*normed(torch, inside, width, 3, stride=stride), *normed(torch, width, width, 3, active=False)]
            short = nn.Sequential(*normed(torch, inside, width, 1, stride=stride, active=False)) if inside != width else nn.Identity()
            layers.append(residual(torch, nn.Sequential(*parts), short))
            inside = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 10))


def lstm(torch):
    """Two layers of 256 over 32 words out of 10,000."""
    nn = torch.nn

    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.cells, self.after = nn.Embedding(10000, 256), nn.LSTM(256, 256, 2, batch_first=True), nn.Linear(256, 10000)

        def forward(self, words):
            return self.after(self.cells(self.before(words))[0].flatten(0, 1))

    return Words()


# Name → how it is made, mini-batch, shape of the input, classes.
NETWORKS = {
    "fcn-s": (fcn_s, 64, (26752,), 26752),
    "alexnet-s": (alexnet_s, 16, (3, 224, 224), 1000),
    "resnet-50": (resnet50, 16, (3, 224, 224), 1000),
    "fcn-r": (fcn_r, 1024, (784,), 10),
    "alexnet-r": (alexnet_r, 1024, (3, 32, 32), 10),
    "resnet-56": (resnet56, 128, (3, 32, 32), 10),
    "lstm": (lstm, 128, ("words", 32), 10000),
}
