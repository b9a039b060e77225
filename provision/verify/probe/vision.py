"""OpenCV in its environment: an image made smaller, and, where it is built with CUDA, a network and a frame of a video on every GPU."""

from stack import in_venv

# Both are base64 of zlib. A network in ONNX's format: two convolutions of 3 x 3
# with a ReLU between them, from 1 x 1 x 16 x 16 to 1 x 2 x 16 x 16. All its numbers are whole; the absolute values of its result for the
# image below add up to 60228.
NET = (
    "eNrj4LBawMplw8VYwcWYKMSYLMWYrMTinJ9XpiXKxZOdWpSXmhNfnJFYkOrA7MC8gJFdS5CLpSAx"
    "pdiBEQKBQlz8XIzJQoxFUoxFSixBqTmlIOOKuBiThBgrpRgrSTVOiDFdawEjBwsHIwczB7MAoxNj"
    "otcERgYGhwMMQIIBAoBsByC7wR6I9w+EnNYGJg4moCOhTkzyWsAEUQZTgqx1VAwkFiUNTGVCYlwi"
    "HIxCAlxMHIxQDGILJAElK9EkmWCSTixcDAK8AEFpbQo="
)
# Two frames of H.264 in MP4: 128 x 128, luma 60 on the left and 180 on the right.
CLIP = (
    "eNpjYGBQSCupLMgszs9lYGBiANFAbJRYlmyYW2BiyMDAzJGbn1/GwMCQk1uWkcKAAphfMDAwTmBg"
    "ZAAhBGBEVYXOd2DAC5iAKLykKDEbyI4pyQbbyYxpGtBeBvz2YLW3AYoZGFRSU0qKgbRMak5xCUIH"
    "1FywXsbzuSmZiUCGQm4Kut81gFiAIfQImKObkZJTBJMpy0xJRVYZBuTneyTmpeSkgtQwVuVm5qUB"
    "GSJluWBDkZ2pkgKRk0kpSk1D8gZPaVGOAtSBVsUlSTlA9q7ikuIUJDWrQJGGIyhAnm5g8ADSHjAV"
    "PD5A9Qo5mUkVRmYm2CJC4v9/IGkAVOXM6OvA9f8hg3g6kL7JxJLD4gCKExDB1HykcxIjA1vG6wPO"
    "OqCAFShILC6AugCERZJKiqDBy6oBM7m4BBz0MJcCo5wDxBYB+ghZHIRlgGLJaGJMSHJVqEmHwRSI"
    "eSFmJecj9DFbAGnb0pQSUHSa5qaCaRBQRI46YHQXJRYU5CAHA0cmJH1wpBWlguLVKzclEcQ3TO1o"
    "sfr3vXG/0alv/1arHn8+90t9q6pnclvPnxRPTdvqGZvTzrvKeKq5NzDsa5gnUDvTEaiJ03GWtdS/"
    "5S2MzQAA+YNB"
)

# The means of the 2 x 2 blocks of 0..63 sum to 504.
OPENCV = """
import base64, ctypes, json, os, tempfile, zlib
os.environ["OPENCV_LOG_LEVEL"] = "INFO"  # at which it names the layers that it does not run on the GPU; read when it is imported
import cv2, numpy
image = numpy.arange(64, dtype=numpy.uint8).reshape(8, 8)
small = cv2.resize(image, (4, 4), interpolation=cv2.INTER_AREA)
said = [line.partition(":")[::2] for line in cv2.getBuildInformation().splitlines()]
built = {name.strip(): value.strip() for name, value in said if name.strip().startswith("NVIDIA ") or name.strip() == "cuDNN"}
answer = {"version": cv2.__version__, "sum": int(small.sum()), "cuda": built.get("NVIDIA CUDA", "").startswith("YES")}
answer["cudnn"] = built.get("cuDNN", "").startswith("YES")
answer["arch_list"] = built.get("NVIDIA GPU arch", "").split()
answer["devices"] = []

def heard(work):
    # The result of some work, and what OpenCV says of layers that the GPU does not run: warnings on standard error, the rest on output.
    with tempfile.TemporaryFile() as kept:
        before = [os.dup(1), os.dup(2)]
        os.dup2(kept.fileno(), 1)
        os.dup2(kept.fileno(), 2)
        try:
            result = work()
        finally:
            for at, kept_before in enumerate(before, 1):
                os.dup2(kept_before, at)
                os.close(kept_before)
        kept.seek(0)
        lines = kept.read().decode("utf-8", "replace").splitlines()
    return result, " ".join(line for line in lines if "fallback" in line or "falling back" in line or "switching to CPU" in line)[:300]

def forward(backend, target):
    net = cv2.dnn.readNetFromONNX(numpy.frombuffer(zlib.decompress(base64.b64decode(NET)), numpy.uint8))
    net.setPreferableBackend(backend)
    net.setPreferableTarget(target)
    net.setInput((numpy.arange(256) * 11 % 17 - 8).astype(numpy.float32).reshape(1, 1, 16, 16))
    return net.forward().astype(float)

def dnn(index):
    if cv2.dnn.DNN_TARGET_CUDA not in cv2.dnn.getAvailableTargets(cv2.dnn.DNN_BACKEND_CUDA):
        raise RuntimeError("dnn lists no target for CUDA")
    exact = forward(cv2.dnn.DNN_BACKEND_OPENCV, cv2.dnn.DNN_TARGET_CPU)
    there, fell_back = heard(lambda: forward(cv2.dnn.DNN_BACKEND_CUDA, cv2.dnn.DNN_TARGET_CUDA))
    off = float(numpy.abs(there - exact).max() / numpy.abs(exact).max())
    return {"off": off if off == off else 1.0, "total": float(numpy.abs(exact).sum()), "fell_back": fell_back}

def decode(index):
    # The library brings FFmpeg's reader of containers and none of its decoders: a frame comes from the GPU, or not at all.
    import PyNvVideoCodec
    frames = PyNvVideoCodec.SimpleDecoder(zlib.decompress(base64.b64decode(CLIP)), gpu_id=index, use_device_memory=False)
    frame = frames[0]
    held = (ctypes.c_uint8 * frame.framesize()).from_address(frame.GetPtrToPlane(0))
    luma = numpy.frombuffer(held, numpy.uint8).reshape(-1, 128)[:128].copy()
    there = cv2.cuda_GpuMat()
    there.upload(luma)
    back = cv2.cuda.resize(there, (32, 32), interpolation=cv2.INTER_AREA).download()
    return {"frames": len(frames), "left": float(back[:, 4:12].mean()), "right": float(back[:, 20:28].mean())}

for index in range(max(0, cv2.cuda.getCudaEnabledDeviceCount()) if answer["cuda"] else 0):
    device = {}
    answer["devices"].append(device)
    try:
        cv2.cuda.setDevice(index)
        there = cv2.cuda_GpuMat()
        there.upload(image)
        device["sum"] = int(cv2.cuda.resize(there, (4, 4), interpolation=cv2.INTER_AREA).download().sum())
    except cv2.error as error:
        device["error"] = str(error).splitlines()[0][:200]
        continue
    for name, part in (("dnn", dnn), ("decode", decode)):
        try:
            device[name] = part(index)
        except Exception as error:
            device[name] = {"error": (str(error) or repr(error)).strip().splitlines()[0][:200]}
print("gpuprov-json=" + json.dumps(answer))
"""


def opencv():
    """OpenCV after real work on the processor and on each GPU."""
    return in_venv("opencv", "NET = %r\nCLIP = %r\n%s" % (NET, CLIP, OPENCV), 55)


FACTS = {"opencv": opencv}
