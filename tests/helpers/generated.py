"""Parts of the documentation that are made from the code: options, keys of the YAML, the Python API."""

import inspect
import re
from itertools import groupby

import typer

import archcli
import archcli.modules
from archcli.api.families import family_rows
from archcli.commands.line.application import every_command
from archcli.commands.line.help import help_entry
from archcli.commands.line.names import COMMANDS
from archcli.load.gguf.families import ARCHS
from archcli.load.huggingface.registry import families
from archcli.load.huggingface.wrappers.table import WRAPPERS
from archcli.load.presets import presets
from archcli.load.spec.schema import rows
from archcli.modules.spec.kinds import KINDS, kind_of
from archcli.modules.spec.kinds import kinds as kinds_of
from archcli.modules.stored.formats import FORMATS
from archcli.rules import all_rules
from archcli.units import ELEMENT_BITS
from archcli.wings.doors.commands.mcp.tools import TOOLS
from archcli.wings.serving.api.engine import as_converted
from archcli.wings.serving.devices.engines import engines, load_engine, trainers
from constants_tables import GENERATORS as OF_CONSTANTS
from truth_tables import GENERATORS as OF_TRUTH

SUMMARY_WIDTH, LINE = 200, 88


def command_line():
    """The command line with all its subcommands."""
    return typer.main.get_command(every_command())


def options(command):
    """(option or argument, its help) as the command's help lists them."""
    context = command.make_context(command.name or "archcli", [], resilient_parsing=True)
    entries = [help_entry(parameter, context) for parameter in command.params]
    return [entry for entry in entries if entry]


def options_table(name=None):
    """The arguments and options of a subcommand, or of `archcli` itself."""
    command = command_line().commands[name] if name else command_line()
    lines = ["| argument or option | meaning | default |", "|---|---|---|"]
    for option, text in options(command):
        meaning, bracket = re.fullmatch(r"(.*?)\s*(?:\[([^][]*)\])?", text, re.DOTALL).groups()
        lines.append(f"| `{cell(option)}` | {cell(meaning)} | {default(bracket or '')} |")
    return "\n".join(lines)


def default(bracket):
    """What the bracket that ends a help says: of `default: 3; x>=0` is left `3`, at least 0."""
    stated = [part.replace("x>=", "at least ") for part in bracket.split("; ") if part]
    return cell(", ".join(f"`{p[9:]}`" if p.startswith("default: ") else p for p in stated))


def cell(text):
    """Text for a cell of a Markdown table."""
    return " ".join(str(text).replace("|", "\\|").split())


def commands_table(folder):
    """Every subcommand with its group and its summary, linked to its page in a folder."""
    lines = ["| to | command | what it does |", "|---|---|---|"]
    commands, before = command_line().commands, ""
    for name, group in COMMANDS.items():
        summary = commands[name].get_short_help_str(SUMMARY_WIDTH).rstrip(".")
        shown = "" if group == before else f"**{group.lower()}**"
        lines.append(f"| {shown} | [`{name}`]({folder}/{name}.md) | {cell(summary)} |")
        before = group
    return "\n".join(lines)


def groups_line(folder):
    """The subcommands by group, linked to their pages in a folder."""
    groups = [
        f"**{group.lower()}** " + ", ".join(f"[`{name}`]({folder}/{name}.md)" for name in names)
        for group, names in groupby(COMMANDS, key=COMMANDS.get)
    ]
    return "; ".join(groups) + "."


KNOWN = {
    "en": "archcli knows {presets} presets, {devices} devices, {engines} inference engines, "
    "{trainers} trainers and {types} `model_type`s of `config.json`, "
    "{held} of them held by tests to the parameters of transformers' own class. {rules} rules check a shape.",
    "zh": "archcli 内置 {presets} 个预设模型、{devices} 种设备、"
    "{engines} 个推理引擎、{trainers} 个训练框架，"
    "能读 {types} 种 `model_type` 的 `config.json`，"
    "其中 {held} 种的参数量由测试与 transformers 自己的类逐一核对；"
    "另有 {rules} 条规则检查结构是否合理。",
}
"""README's claims, by language."""


def counts(language):
    """How much archcli knows; `none` is no engine and no trainer."""
    types = family_rows()
    return KNOWN[language].format(
        presets=len(presets()),
        devices=len(archcli.devices().rows),
        engines=len({*engines()} - {"none"}),
        trainers=len({*trainers()} - {"none"}),
        types=len(types),
        held=sum("parameters" in row["held"] for row in types),
        rules=len(all_rules()),
    )


def tools_table():
    """The tools of `archcli mcp`, each with what it tells."""
    lines = ["| tool | what it tells |", "|---|---|"]
    lines += [f"| [`{name}`](./{name}.md) | {cell(tool.description)} |" for name, tool in TOOLS.items()]
    return "\n".join(lines)


def wrapped(names):
    """Names in backticks, with commas between."""
    return ", ".join(f"`{name}`" for name in sorted(names))


def formats_table():
    """The stored formats that `--dtype` names, with the bits per weight of Llama 3.1 8B."""
    lines = ["| `--dtype` | bits per weight | of a cache too | what it is |", "|---|---:|:-:|---|"]
    model = archcli.load("llama-3.1-8b")
    for name, stored in FORMATS.items():
        bits = archcli.count_params(model, dtype=name).totals["bits_per_weight"]
        lines.append(f"| `{name}` | {bits:.5g} | {'yes' if stored.cache else ''} | {cell(stored.about)} |")
    return "\n".join(lines)


def published_table():
    """The presets whose weights were not published in bf16, with the bytes of each form."""
    lines = ["| preset | published in | bytes | in bf16 | files of engines |", "|---|---|---:|---:|---|"]
    for name in presets():
        form = archcli.load(name).published_in
        if form is not None:
            totals = archcli.count_params(name).totals
            words = form.format or form.label or f"{form.bits} bits"
            sizes = f"{totals['published_bytes']:,} | {totals['plain_bytes']:,}"
            lines.append(f"| `{name}` | {words} | {sizes} | {', '.join(_files_of_engines(name))} |")
    return "\n".join(lines)


def _files_of_engines(name):
    """The forms that engines' files have in place of the published one, with their bytes."""
    model = archcli.load(name)
    for engine in engines():
        dtype = as_converted(model, engine).published_in.format
        if dtype != model.published_in.format:
            size = archcli.count_params(name, dtype=dtype).totals["bytes"]
            yield f"{load_engine(engine)['title']}: {dtype}, {size:,}"


def families_table():
    """Every model_type, by which class it is held and in what, and what it is: as `archcli families` says."""
    heading = ["| model_type | class | held | what it is |", "|---|---|---|---|"]
    row = "| `{model_type}` | {class} | {held} | {what} |"
    return "\n".join([*heading, *(row.format_map(each) for each in family_rows())])


def yaml_keys():
    """Every class that a YAML can name, by family and kind: its docstring and its keys."""
    keys = {name: list(group) for name, group in groupby(rows(), key=lambda row: row["class"])}
    kinds = [cls for family in sorted(KINDS) for cls in kinds_of(family).values()]
    others = sorted(keys.keys() - {cls.__name__ for cls in kinds})
    titled = [(cls.family, f"{cls.family}: {kind_of(cls)}", cls) for cls in kinds]
    titled += [("Mappings without a kind", name, getattr(archcli.modules, name)) for name in others]
    parts = []
    for heading, group in groupby(titled, key=lambda entry: entry[0]):
        parts.append(f"## {heading}")
        parts += [section(title, cls, keys.get(cls.__name__, [])) for _, title, cls in group]
    return "\n\n".join(parts)


def section(title, cls, keys):
    """One class: its docstring and a table of its keys."""
    lines = [f"### {title}", "", prose(cls)]
    if keys:
        lines += ["", "| key | takes | default | meaning |", "|---|---|---|---|"]
    for key in keys:
        left_out = "required" if key["required"] else key["default"] and f"`{cell(key['default'])}`"
        meaning = key["meaning"].replace("<", "&lt;")
        lines.append(f"| `{key['key']}` | {cell(key['takes'])} | {left_out} | {cell(meaning)} |")
    return "\n".join(lines)


def prose(obj):
    """A docstring as Markdown, without the arguments, which the pages of the commands describe."""
    text, _, _ = (inspect.getdoc(obj) or "").partition("\n\nArguments:")
    return text.replace("<", "&lt;")


def api(name):
    """A public function or class: its signature, its docstring, and its public methods."""
    obj = getattr(archcli, name)
    if inspect.ismodule(obj):  # a package that can be called
        obj = getattr(obj, name)
    if obj.__name__ != name:
        return f"`{name}` is `{obj.__name__}` by the name of its command."
    text = f"```py\n{signature(name, obj)}\n```\n\n{prose(obj)}"
    return "\n\n".join([text, *methods(obj)]) if inspect.isclass(obj) else text


def methods(cls):
    """The public methods and properties that a class adds."""
    for name, member in vars(cls).items():
        function = member.fget if isinstance(member, property) else member
        if name.startswith("_") or not inspect.isfunction(function) or not inspect.getdoc(function):
            continue
        shown = name if isinstance(member, property) else signature(name, function, method=True)
        yield f"`.{shown}`: {prose(function).partition(chr(10) * 2)[0]}"


class Bare(str):
    """A text that is its own repr: how `inspect` prints an annotation."""

    __slots__ = ()
    __repr__ = str.__str__


def signature(name, function, *, method=False):
    """A signature as it would be written, a line for each parameter where one line is too short."""
    found = inspect.signature(function)
    parameters = [p.replace(annotation=bare(p.annotation)) for p in found.parameters.values()]
    shown = found.replace(
        parameters=[p for p in parameters if p.name != "self"],
        return_annotation=bare(found.return_annotation),
    )
    line = name + str(shown)
    return line if method or len(line) <= LINE else broken(name, shown)


def broken(name, shown):
    """A signature over several lines."""
    empty = inspect.Signature.empty
    lines, starred = [], False
    for parameter in shown.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            lines.append("*")
        starred = starred or parameter.kind in {parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL}
        lines.append(str(parameter))
    result = "" if shown.return_annotation is empty else f" -> {shown.return_annotation}"
    return f"{name}(\n" + "".join(f"    {line},\n" for line in lines) + f"){result}"


def bare(annotation):
    """An annotation that prints without quotes and without the modules of its names."""
    if annotation is inspect.Signature.empty:
        return annotation
    text = getattr(annotation, "__forward_arg__", annotation)
    text = text if isinstance(text, str) else inspect.formatannotation(annotation)
    text = re.sub(r"\b(?:collections\.abc|typing|pathlib|os|archcli(?:\.\w+)*)\.(?=[A-Z])", "", text)
    return Bare(re.sub(r"Optional\[(Literal\[.*?\])\]", r"\1 | None", text))


GENERATORS = {
    "options": options_table,
    "commands": commands_table,
    "groups": groups_line,
    "counts": counts,
    "tools": tools_table,
    "keys": yaml_keys,
    "families": lambda: wrapped(families()),
    "wrappers": lambda: wrapped(sorted(WRAPPERS)),
    "gguf": lambda: wrapped(ARCHS),
    "formats": formats_table,
    "published_forms": published_table,
    "listing": families_table,
    "dtypes": lambda: wrapped(ELEMENT_BITS),
    "api": api,
    **OF_CONSTANTS,
    **OF_TRUTH,
}
"""By the word after `made:`."""
