"""What a device holds beyond the model: by label, added up, each with a source."""

from archcli.wings.serving.devices.datasheet import devices, load_datasheet
from archcli.wings.serving.memory.ranks import beyond_model, workspace_bytes
from table import every_row

KIB = 1024


def test_every_part_has_a_label_and_a_source_and_the_bytes_are_their_sum():
    beyond = beyond_model("cuda", "sm_90", training=True, n_devices=8, n_storages=1000)
    assert [(part.label, part.least_bytes, part.bytes) for part in beyond.parts] == [
        ("CUDA context", 300_000_000, 500_000_000),
        ("NCCL", 360_000_000, 410_000_000),
        ("cuBLAS workspaces", 2 * 8 * 4096 * KIB, 2 * 8 * 4096 * KIB),
        ("allocator rounding", 0, 511 * 1000),
    ]
    assert beyond.bytes == 500_000_000 + 410_000_000 + 2 * 32 * 2**20 + 511 * 1000
    assert beyond.least_bytes == 300_000_000 + 360_000_000 + 2 * 32 * 2**20
    assert all(part.source for part in beyond.parts)


def test_one_device_has_no_communicator_and_inference_one_workspace():
    beyond = beyond_model("cuda", "sm_80", training=False)
    assert {part.label: part.bytes for part in beyond.parts} == {
        "CUDA context": 500_000_000,
        "cuBLAS workspaces": (2 * 4096 + 8 * 16) * KIB,
        "allocator rounding": 0,
    }


def test_amds_libraries_have_names_of_their_own():
    parts = beyond_model("cuda", "gfx942", training=True, n_devices=8).parts
    assert [part.label for part in parts][:3] == ["HIP context", "RCCL", "hipBLAS workspaces"]


def test_the_processor_holds_nothing_beyond():
    beyond = beyond_model("cpu", training=True, n_devices=2, n_storages=10)
    assert (beyond.parts, beyond.bytes, beyond.least_bytes) == ((), 0, 0)


WORKSPACES = {
    "sm_70": 8_519_680,
    "sm_86": 8_519_680,
    "sm_89": 8_519_680,
    "sm_90": 32 * 2**20,
    "sm_100": 32 * 2**20,
    "sm_103": 32 * 2**20,
    "sm_120": 32 * 2**20,
    "gfx90a": (32 + 76) * 2**20,
    "gfx942": (128 + 76) * 2**20,
    "gfx950": (128 + 76) * 2**20,
    "": 32 * 2**20,
}


@every_row("architecture", WORKSPACES)
def test_a_workspace_is_what_torch_asks_for(architecture):
    """8,519,680 bytes are what pytorch/pytorch#95668 saw left by one matrix product on an A10G."""
    assert workspace_bytes(architecture) == WORKSPACES[architecture]


def test_every_gpu_of_nvidia_and_amd_names_its_architecture():
    sheets = [load_datasheet(name) for name in devices()]
    starts = {"NVIDIA": "sm_", "AMD": "gfx"}
    gpus = [sheet for sheet in sheets if sheet.kind == "gpu" and sheet.vendor in starts]
    assert gpus
    assert all(sheet.architecture.startswith(starts[sheet.vendor]) for sheet in gpus)
