"""What the workers run in TensorRT, Transformer Engine and FlashAttention, each against what it should compute.

A library that is not in PyTorch's environment costs no time: nobody imports it.
"""

import glob

from stack import home_of

# Part -> the folder of its package.
LIBRARY_FOLDERS = {"tensorrt": "tensorrt_bindings", "transformer_engine": "transformer_engine", "flash_attention": "flash_attn"}
SECONDS = {"tensorrt": 60, "transformer_engine": 40, "flash_attention": 20}


def installed():
    """The parts whose package is in PyTorch's environment."""
    folder = home_of("pytorch") + "/lib/python3*/site-packages/"
    return [part for part, package in LIBRARY_FOLDERS.items() if glob.glob(folder + package)]


def tried(crew, ranks):
    """What each GPU made of each library: part -> rank -> answer."""
    there = installed()
    answers = {}
    for part, package in LIBRARY_FOLDERS.items():
        absent = {"reason": "missing", "unknown": "no %s in %s" % (package, home_of("pytorch"))}
        answers[part] = crew.ask(part, ranks) if part in there else dict.fromkeys(ranks, absent)
    return answers


LIBRARIES = """
def distance(one, other):
    # Of two tensors, relative to the norm of the second.
    off = ((one.double() - other.double()).norm() / other.double().norm()).item()
    return off if off == off else 1.0

def tensorrt():
    # Two products and an activation: built, serialized, read again and run, in FP32, in FP16, and in INT8 by quantizing explicitly.
    try:
        import tensorrt_bindings as trt
    except ImportError as error:
        if "cannot open shared object file" in str(error):  # libnvonnxparser, which it loads first, or libnvinfer
            raise FileNotFoundError(str(error))
        return {"reason": "import", "unknown": str(error)[:300]}
    import ctypes
    library = ctypes.CDLL("libnvinfer.so." + trt.__version__.split(".")[0]).getInferLibVersion()
    logger = trt.Logger(trt.Logger.ERROR)
    source = torch.Generator().manual_seed(7)
    batch, one, two = (torch.randn(*shape, generator=source) / by for shape, by in (((64, 256), 1), ((256, 512), 16), ((512, 128), 22)))
    hidden = torch.relu(batch @ one)
    exact = torch.relu(batch.double() @ one.double()) @ two.double()
    given = batch.to(device)

    def result(kind):
        builder, kept = trt.Builder(logger), []
        strongly = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)  # 11 has no other networks
        network = builder.create_network() if strongly is None else builder.create_network(1 << int(strongly))
        def constant(tensor, of=trt.float32):
            kept.append(tensor.contiguous())  # it is read until the engine is built
            return network.add_constant(tuple(tensor.shape), trt.Weights(of, kept[-1].data_ptr(), tensor.numel())).get_output(0)
        def rounded(value, largest):
            scale = constant(torch.tensor(float(largest) / 127))
            small = network.add_quantize(value, scale, trt.int8).get_output(0)
            return network.add_dequantize(small, scale, trt.float32).get_output(0)
        def times(value, weight, largest):
            if kind == "int8":
                value, other = rounded(value, largest), rounded(constant(weight), weight.abs().max())
            else:
                other = constant(weight.half(), trt.float16) if kind == "fp16" else constant(weight)
            plain = trt.MatrixOperation.NONE
            return network.add_matrix_multiply(value, plain, other, plain).get_output(0)
        value = network.add_input("x", trt.float32, tuple(batch.shape))
        if kind == "fp16":
            value = network.add_cast(value, trt.float16).get_output(0)
        value = network.add_activation(times(value, one, batch.abs().max()), trt.ActivationType.RELU).get_output(0)
        value = times(value, two, hidden.abs().max())
        if kind == "fp16":
            value = network.add_cast(value, trt.float32).get_output(0)
        value.name = "y"
        network.mark_output(value)
        config = builder.create_builder_config()
        config.clear_flag(trt.BuilderFlag.TF32)
        config.builder_optimization_level = 1
        plan = builder.build_serialized_network(network, config)
        if plan is None:
            raise RuntimeError("TensorRT built no engine in " + kind)
        runtime = trt.Runtime(logger)
        engine = runtime.deserialize_cuda_engine(plan)
        context = engine.create_execution_context()
        out = torch.empty(exact.shape, device=device)
        context.set_tensor_address("x", given.data_ptr())
        context.set_tensor_address("y", out.data_ptr())
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        if not context.execute_async_v3(stream.cuda_stream):
            raise RuntimeError("TensorRT did not run its engine in " + kind)
        stream.synchronize()
        return out.cpu()

    full = result("fp32")
    off = {"fp32": distance(full, exact), "fp16": distance(result("fp16"), full), "int8": distance(result("int8"), full)}
    return dict(off, version=trt.__version__, library=library)

def transformer_engine():
    # One layer in FP8, and the same layer in BF16, against the product in double precision.
    import importlib.metadata
    import transformer_engine.pytorch as te
    from transformer_engine.common.recipe import Float8CurrentScaling
    layer = te.Linear(1024, 512, bias=False, params_dtype=torch.bfloat16, device=device)
    batch = torch.randn(256, 1024, dtype=torch.bfloat16, device=device)
    with torch.no_grad():
        exact = batch.double() @ layer.weight.double().t()
        plain = layer(batch)
        if hasattr(te, "autocast"):  # its name until 2.8 was fp8_autocast
            low = te.autocast(enabled=True, recipe=Float8CurrentScaling())
        else:
            low = te.fp8_autocast(enabled=True, fp8_recipe=Float8CurrentScaling())
        with low:
            small = layer(batch)
    version = importlib.metadata.version("transformer-engine")
    return {"version": version, "bf16": distance(plain, exact), "fp8": distance(small, exact)}

def flash_attention():
    # Its output and its gradient, with and without a causal mask, against PyTorch's own attention, computed plainly in double precision.
    import flash_attn
    from torch.nn.attention import SDPBackend, sdpa_kernel
    whole = torch.nn.functional.scaled_dot_product_attention
    forward = backward = 0.0
    for causal in (False, True):
        given = [torch.randn(2, 256, 4, 64, dtype=torch.bfloat16, device=device, requires_grad=True) for _ in range(3)]
        same = [one.detach().double().requires_grad_() for one in given]
        ours = flash_attn.flash_attn_func(*given, causal=causal)
        with sdpa_kernel(SDPBackend.MATH):
            exact = whole(*(one.transpose(1, 2) for one in same), is_causal=causal).transpose(1, 2)
        weight = torch.randn(exact.shape, dtype=torch.bfloat16, device=device)
        ours.backward(weight)
        exact.backward(weight.double())
        forward = max(forward, distance(ours, exact))
        backward = max([backward, *(distance(one.grad, other.grad) for one, other in zip(given, same))])
    return {"version": flash_attn.__version__, "forward": forward, "backward": backward}

"""
