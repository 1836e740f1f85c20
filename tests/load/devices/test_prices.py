"""Prices of devices and instances: the file's form, what is wrong with one, and what is shipped."""

import re
from datetime import date

import pytest

from archcli.errors import ArchError
from archcli.wings.serving.devices.datasheet import load_datasheet
from archcli.wings.serving.devices.instances import counted, instance_of
from archcli.wings.serving.devices.prices import KINDS, OF_GPUHUNT, price_of_hour, prices
from table import every_row

MINE = """\
title: mine
currency: EUR
where: a dealer
date: 2026-11-28
prices:
  - {device: rtx-3090, price: 650, kind: used}
  - {device: RTX 3090, price: 1600, kind: new}
  - {device: rtx-4060-ti:8gb, price: 300, kind: new}
  - {device: p5.48xlarge, price: 56, kind: hour, where: AWS}
  - {device: 4xh100-sxm, price: 24, kind: hour, where: another, date: 2026-11-01}
"""


@pytest.fixture
def book(tmp_path):
    (tmp_path / "mine.yaml").write_text(MINE)
    return prices(tmp_path / "mine.yaml")


def refused(tmp_path, text):
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(ArchError) as error:
        prices(tmp_path / "bad.yaml")
    return error.value.problems


def test_a_price_is_that_of_so_many_devices(book):
    two = book.purchase("rtx-3090", 2)
    assert (two.amount, two.currency, two.kind, two.count) == (2 * 650, "EUR", "used", 2)
    assert two.text == "€1,300 used (a dealer, 2026-11-28)"
    assert (book.title, book.date, book.currency) == ("mine", "2026-11-28", "EUR")
    assert book.price("rtx-3090") == book.purchase("NVIDIA GeForce RTX 3090 24GB")


@every_row(
    ("count", "amount", "where"),
    [
        (1, 24, "another, 4xh100-sxm"),
        (4, 24, "another, 4xh100-sxm"),
        (5, 2 * 24, "another, 2 x 4xh100-sxm"),
        (9, 3 * 24, "another, 3 x 4xh100-sxm"),
    ],
)
def test_an_instance_is_paid_as_a_whole(count, amount, where, book):
    price = book.hourly("h100-sxm", count)
    assert (price.amount, price.where, price.kind) == (amount, where, "hour")
    assert book.purchase("h100-sxm", count) is None


def test_an_instance_that_is_named_has_its_own_price(book):
    assert (book.hourly("p5.48xlarge", 8).amount, book.hourly("P5.48xlarge", 16).amount) == (56, 2 * 56)
    # 24 x 2 for eight others is less
    assert book.hourly("h100-sxm", 8).amount == 2 * 24
    assert book.hourly("p4d.24xlarge", 8) is None


def test_another_memory_is_another_device(book):
    assert book.price("rtx-4060-ti:8gb").amount == 300
    # without a size that with 16 GB is meant
    assert book.price("rtx-4060-ti") is None
    assert book.price("rtx-3090:24gb").amount == 650
    assert book.price("rtx-3090:48gb") is None


def test_a_device_of_ones_own_has_no_price(book):
    assert book.price("24GB, 1008GB/s") is None
    assert book.price("mine.yaml") is None


@every_row(
    ("change", "message"),
    [
        (("currency: EUR", "currency: Euro"), 'bad.yaml:2:11: currency is "Euro"; three letters such as USD'),
        (("currency: EUR\n", ""), "bad.yaml: no currency is stated; one for all prices of the file"),
        (
            ("kind: used}", "kind: used, currency: USD}"),
            "6:5: a price in USD, and the file is in EUR; one currency",
        ),
        (("650", "-650"), "bad.yaml:6:31: price is -650; a number from 0 up"),
        (("650", "cheap"), 'price is "cheap"; a number from 0 up'),
        (("device: rtx-3090", "device: rtx-3099"), "6:14: no device 'rtx-3099'; did you mean rtx-3090"),
        (("date: 2026-11-28\n", ""), "5:5: a price without date; such as {device: rtx-3090"),
        (("date: 2026-11-28", "date: last week"), 'date is "last week"; a day such as 2026-11-28'),
        (("where: a dealer\n", ""), "5:5: a price without where"),
        (("kind: used", "kind: old"), 'kind is "old"; it is new, used or hour'),
        (("price: 650", "prise: 650"), "6:5: a price without price"),
        (("title: mine", "titel: mine"), "1:1: unknown key 'titel'; did you mean title?"),
        (("  - {device: rtx-3090, price: 650, kind: used}", "  - 650"), "6:5: 650 is no price; such as"),
    ],
)
def test_a_mistake_in_a_file_has_its_place_and_a_way_out(change, message, tmp_path):
    assert message in str(refused(tmp_path, MINE.replace(*change))[0])


@every_row("text", ["", "currency: EUR", "currency: EUR\nprices: []", "[1]", "currency: EUR\nprices: {a: 1}"])
def test_a_file_without_prices(text, tmp_path):
    [problem] = refused(tmp_path, text)
    assert "prices: [{device: rtx-3090" in problem.hint


def test_all_mistakes_are_said_at_once(tmp_path):
    assert len(refused(tmp_path, MINE.replace("650", "-1").replace("kind: new", "kind: old"))) == 1 + 2


def test_what_is_shipped_names_what_exists_and_who_says_so_and_when():
    shipped = prices()
    assert (shipped.currency, prices("shipped")) == ("USD", shipped)
    offers = [(name, offer) for name, of_device in shipped.offers.items() for offer in of_device]
    assert len(offers) > 150
    for name, offer in offers:
        number, device = counted(offer.named)
        assert (number, load_datasheet(device).name.partition(":")[0]) == (offer.number, name)
        assert offer.price.amount > 0
        assert offer.price.kind in KINDS
        assert offer.price.where
        assert "2016-01-01" < offer.price.date <= "2026-11-30"
        assert date.fromisoformat(offer.price.date)
        # a device that is asked by its own name finds a price
        assert shipped.price(offer.named if instance_of(offer.named) else device, number) is not None


def test_published_prices_that_everybody_knows():
    shipped = prices()
    known = {"rtx-4090": 1599, "rtx-3090": 1499, "rtx-5090": 1999, "rx-7900-xtx": 999, "dgx-spark": 3999}
    assert {name: shipped.purchase(name).amount for name in known} == known


def test_the_price_of_an_hour_or_what_is_missing(tmp_path):
    (tmp_path / "mine.yaml").write_text(MINE)
    source = str(tmp_path / "mine.yaml")
    found = price_of_hour("2xp5.48xlarge", source)
    assert (found["amount"], found["count"], found["text"]) == (
        2 * 56,
        16,
        "€112 an hour (AWS, 2 x p5.48xlarge, 2026-11-28), of mine",
    )
    with pytest.raises(
        ArchError, match=re.escape("no price of an hour of 2xrtx-3090; it has €1,300 used (a")
    ):
        price_of_hour("2xrtx-3090", source)
    with pytest.raises(ArchError, match="two prices"):
        price_of_hour("h100-sxm", source, 2.5)


CATALOGUE = """\
instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor
p5.48xlarge,us-east-1,55.04,192,2048,8,H100,80,False,,nvidia
p5.48xlarge,us-east-1,20.0,192,2048,8,H100,80,True,,nvidia
g6e.xlarge,us-east-1,1.861,4,32,1,L40S,48,False,,nvidia
m7i.large,us-east-1,0.1,2,8,0,,,False,,
x.large,us-east-1,0.2,2,8,1,NOBODYS,8,False,,nvidia
"""


# gpuhunt leaves its files open
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_gpuhunts_catalogue_is_read_from_its_folder(tmp_path, monkeypatch):
    pytest.importorskip("gpuhunt")
    monkeypatch.setenv(OF_GPUHUNT, str(tmp_path))
    (tmp_path / "aws.csv").write_text(CATALOGUE)
    book = prices("gpuhunt")
    assert {name: [offer.price.amount for offer in offers] for name, offers in book.offers.items()} == {
        "h100-sxm": [55.04],
        "l40s": [1.861],
    }
    assert book.hourly("l40s", 2).where == "aws, us-east-1"


def test_gpuhunt_is_asked_for_by_name(monkeypatch):
    monkeypatch.delenv(OF_GPUHUNT, raising=False)
    with pytest.raises(ArchError, match="gpuhunt"):
        prices("gpuhunt")
