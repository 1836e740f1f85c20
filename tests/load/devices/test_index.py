"""devices/index.json holds what the list of devices has of each."""

from archcli.wings.serving.api.known_device.listed import INDEX, ListedDevice, index_of, listed_devices
from archcli.wings.serving.devices.datasheet import devices, folder, load_datasheet

RENEWAL = "pytest -n0 --renew tests/load/devices/test_index.py"


def test_the_index_is_that_of_the_files(renew):
    path = folder() / INDEX
    sheets = [load_datasheet(name) for name in devices()]
    if renew:
        path.write_text(index_of(sheets), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == index_of(sheets), RENEWAL
    assert [*listed_devices()] == [ListedDevice.of(sheet) for sheet in sheets]
