"""The GPUs of this machine: asked of a driver that is played here, by its documented calls."""

import ctypes
from types import SimpleNamespace

from archcli.wings.serving.recorded import cuda_driver
from archcli.wings.serving.recorded.cuda_driver import LocalGpu, local_gpus
from table import every_row

GPUS = (
    LocalGpu("NVIDIA H200", 150_109_945_856, "sm_90"),
    LocalGpu("NVIDIA GeForce RTX 4090", 25_250_627_584, "sm_89"),
)
CAPABILITIES = ((9, 0), (8, 9))
ERROR_NO_DEVICE = 100


def pointed(reference, kind):
    return ctypes.cast(reference, ctypes.POINTER(kind)).contents


def fill(reference, kind, value):
    pointed(reference, kind).value = value
    return 0


def name_of(buffer, length, device):
    text = GPUS[device.value].name.encode()[: length - 1]
    ctypes.memmove(buffer, text, len(text))
    return 0


CALLS = {
    "cuInit": lambda flags: flags,
    "cuDeviceGetCount": lambda count: fill(count, ctypes.c_int, len(GPUS)),
    "cuDeviceGet": lambda device, index: fill(device, ctypes.c_int, index),
    "cuDeviceGetName": name_of,
    "cuDeviceTotalMem_v2": lambda size, device: fill(size, ctypes.c_size_t, GPUS[device.value].memory_bytes),
    "cuDeviceGetAttribute": lambda value, which, device: fill(
        value, ctypes.c_int, CAPABILITIES[device.value][which - 75]
    ),
}


def test_every_gpu_is_named_with_its_memory():
    assert local_gpus(SimpleNamespace(**CALLS)) == GPUS


@every_row("name", CALLS)
def test_a_driver_that_refuses_shows_no_gpu(name):
    assert local_gpus(SimpleNamespace(**CALLS | {name: lambda *_: ERROR_NO_DEVICE})) == ()


def test_a_machine_without_a_driver_has_no_gpu(monkeypatch):
    monkeypatch.setattr(cuda_driver, "LIBRARY", "libno_such_driver.so.1")
    assert local_gpus() == ()
    assert local_gpus(SimpleNamespace()) == ()
