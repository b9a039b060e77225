"""Which parts OpenCV with CUDA has beyond images: a profile decides it, and the lock, the roles and the checks follow."""

from provision.profile.model import Profile

DNN, DECODE = "dnn", "decode"


def opencv_parts(profile: Profile) -> tuple[str, ...]:
    """`dnn`, networks on cuDNN, where the profile has cuDNN; `decode`, videos on the GPU's own decoder.

    A distribution's own packages have no cuDNN, so there is no dnn.
    """
    if profile.stack.opencv != "cuda":
        return ()
    return (DECODE,) if profile.stack.cudnn == "none" or profile.sources.packages == "distribution" else (DNN, DECODE)
