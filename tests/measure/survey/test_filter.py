"""Conditions and orders: what each sign and unit means, and one clear answer for each mistake."""

from dataclasses import replace

import pytest

from archcli.errors import ArchError
from archcli.measure.report import Column
from archcli.measure.survey.presets import select
from table import every_row

COLUMNS = (
    Column("name", "preset"),
    Column("released", "released", "date"),
    Column("active_params", "active", "count"),
    Column("kv", "KV/token", "bytes"),
    Column("layers", "layers", "number"),
    Column("share", "share", "share"),
    Column("tied", "tied", "flag"),
)
RECORDS = (
    {
        "name": "a",
        "released": "2023",
        "active_params": 7_000_000_000,
        "kv": 1024,
        "layers": 2,
        "share": 0.25,
        "tied": True,
    },
    {
        "name": "b Window 512 / b",
        "released": "2024-07",
        "active_params": 8_000_000_000,
        "kv": 2048,
        "layers": 10,
        "share": 0.5,
        "tied": False,
    },
    {"name": "c", "released": "2024-12", "active_params": 70_000_000_000, "kv": 0, "layers": None},
    {"name": "d", "released": None, "active_params": 1_500_000, "kv": 100_000, "layers": 9},
)


def names(*where, sort=None):
    return "".join(record["name"][0] for record in select(RECORDS, COLUMNS, where, sort))


# condition: whom it leaves
HOLD = {
    "active_params=7B": "a",
    "active = 8e9": "b",
    "active==8G": "b",
    "active!=8e9": "acd",
    "active>8e9": "c",
    "active>=8_000M": "bc",
    "active<8e9": "ad",
    "active<=8B": "abd",
    "ACTIVE<1.6M": "d",
    "active<0.01T": "abd",
    "kv<2KiB": "ac",
    "kv<2.0001KiB": "abc",
    "kv<=2 KiB": "abc",
    "KV/token>=100kB": "d",
    "kv=0": "c",
    "layers>2": "bd",
    "layers=9": "d",
    "layers<=10": "abd",
    "layers!=9": "abc",
    "preset=A": "a",
    "name=window": "b",
    "name=b window 512 / b": "b",
    "name=windo": "",
    "name!=b": "acd",
    "name~INDOW": "b",
    "name~w 512": "b",
    "layers=none": "c",
    "layers!=none": "abd",
    "released=none": "d",
    "share>=25%": "ab",
    "share>0.25": "b",
    "tied=true": "a",
    "tied!=true": "bcd",
    "tied=no": "b",
    "released=2024": "bc",
    "released!=2024": "ad",
    "released>2023": "bc",
    "released>=2024": "bc",
    "released<2024": "a",
    "released<=2024": "abc",
    "released>=2024-08": "c",
    "released<2024-12": "ab",
    "released=2023-05": "a",  # it may have been May
}


@every_row(("condition", "left"), HOLD.items(), ids=HOLD)
def test_a_condition_leaves(condition, left):
    assert names(condition) == left


def test_all_conditions_hold():
    assert names("released=2024", "active<9B") == "b"
    assert names() == "abcd"


# order: those without a value are last either way
SORTED = {
    "layers": "adbc",
    "layers:desc": "bdac",
    "layers:asc": "adbc",
    "released:desc": "cbad",
    "active": "dabc",
    "preset:desc": "dcba",
}


@every_row(("order", "sorted_"), SORTED.items(), ids=SORTED)
def test_an_order_sorts(order, sorted_):
    assert names(sort=order) == sorted_


KNOWN = "known are name, released, active_params, kv, layers, share, tied"
WRITE = "is not a condition; write a comparison or a range: params>10B, series=llama, params in 7e9±1%"
NUMBER = "is not a whole number such as 4096, 8k (8,000), 8K (8,192), 1.5M, 70B or 8e9"
MEMORY = (
    "is not an amount of memory such as 80GiB, 24GB or 8e9; write KiB (powers of 1,024) or kB "
    "(powers of 1,000)"
)
DATE = "is not a date; write a year, or a year and a month from 01 to 12: 2024-07"
WRONG = {
    "column": ("activ>3", "--where activ>3: unknown column 'activ'; did you mean active?"),
    "column-unlike-any": ("zzz>3", f"--where zzz>3: unknown column 'zzz'; {KNOWN}"),
    "column-missing": (">3", f"--where >3: '>3' {WRITE}"),
    "sign-missing": ("active", f"--where active: 'active' {WRITE}"),
    "sign-unknown": ("active=<3", f"--where active=<3: 'active=<3' {WRITE}"),
    "sign-unknown-of-text": ("name==>a", f"--where name==>a: 'name==>a' {WRITE}"),
    "value-missing": ("active>", f"--where active>: 'active>' {WRITE}"),
    "value-count": ("active>ten", f"--where active>ten: 'ten' {NUMBER}"),
    "value-fraction": ("active>2.5", f"--where active>2.5: '2.5' {NUMBER}; it must come to a whole number"),
    "value-bytes": ("kv<1K", f"--where kv<1K: '1K' {MEMORY}"),
    "value-date": (
        "released>July",
        f"--where released>July: 'July' {DATE}",
    ),
    **{
        f"value-date-{date}": (f"released>={date}", f"--where released>={date}: '{date}' {DATE}")
        for date in ("2024-13", "2024-00", "2024-1", "0000", "9999")
    },
    "text-ordered": ("name>a", "--where name>a: name is text; use =, != or ~"),
    "flag-ordered": ("tied>true", "--where tied>true: tied is true or false; use = or !="),
    "flag-value": ("tied=maybe", "--where tied=maybe: 'maybe' is neither true nor false"),
    "part-of-a-number": ("layers~3", "--where layers~3: layers is no text; use one of = != < <= > >="),
    "value-share": ("share>half", "--where share>half: 'half' is not a number such as 2.5 or 25%"),
    "long": (f"{50 * 'a'}>3", f"--where {50 * 'a'}>3: unknown column '{39 * 'a'}…'; {KNOWN}"),
}


def refused(*where, sort=None):
    with pytest.raises(ArchError) as error:
        select(RECORDS, COLUMNS, where, sort)
    return [f"{problem.mark.text}: {replace(problem, mark=None)}" for problem in error.value.problems]


@every_row(("condition", "said"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_answered(condition, said):
    assert refused(condition) == [said]


def test_an_order_is_answered():
    assert refused(sort="layer") == ["--sort layer: unknown column 'layer'; did you mean layers?"]
    assert refused(sort="layers:down") == [
        "--sort layers:down: unknown order 'down'; write COLUMN:desc for the largest first"
    ]


def test_all_mistakes_are_told_at_once():
    assert len(refused("activ>3", "layers>x", sort="foo:up")) == 4
