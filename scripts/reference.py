# SPDX-License-Identifier: Apache-2.0
"""Generates the reference pages of the documentation from the code. A hook of mkdocs: no copy is stored.

`pages()` returns every page by its path under docs/: the command line, nodes, launch arguments, topics and
messages, frames on the wire, and the configuration of links and regimes.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, get_args

import typer
import yaml

import outrider
from outrider.cli import app
from outrider.core import frames
from outrider.runtime.node_graph.node_graphs import (
    ARGUMENTS,
    CLOUD_GRAPH,
    GAZEBO_GRAPH,
    ROBOT_GRAPH,
    SIM_GRAPH,
    TELEOP_GRAPH,
)
from outrider.runtime.node_graph.node_specs import NODES
from outrider.runtime.node_graph.parameters import Parameter

ROOT = Path(__file__).resolve().parents[1]
INTERFACES = ROOT / "ros2_ws" / "src" / "outrider_interfaces"
LAUNCH_FILES = {
    "sim": SIM_GRAPH,
    "robot": ROBOT_GRAPH,
    "teleop": TELEOP_GRAPH,
    "gazebo": GAZEBO_GRAPH,
    "cloud": CLOUD_GRAPH,
}
EITHER_TWIST = "Twist or TwistStamped"
WAYS = {
    "publisher": ("publisher", 0, 1),
    "subscription": ("subscription", 0, 1),
    "TwistInput": ("subscription", 1, 1),
    "service": ("service", 0, 1),
    "ActionServer": ("action", 1, 2),
}
"""Calls that name a topic, service or action: its use, and the argument indices of its type and its name."""
Known = dict[str, ast.expr]
GENERATED = "<!-- Written by scripts/reference.py from the code. -->\n\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a Markdown table. Bars in a cell are escaped; line breaks become blanks."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(_cell(cell) for cell in line) + " |\n" for line in lines)


def code_block(text: str, language: str) -> str:
    """Returns a fenced block of code."""
    return f"```{language}\n{text.strip()}\n```\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _literal(text: str) -> str:
    """Returns text with the characters escaped that Markdown or HTML would interpret."""
    return text.replace("<", "&lt;").replace("*", "\\*")


def api_page() -> str:
    """Returns the page of the package's public names, each with its signature and docstring."""
    lines = ["# Python\n", "What `import outrider` offers; all else may change without notice.\n"]
    for name in sorted(set(outrider.__all__) - {"__version__"}, key=str.lower):
        thing = getattr(outrider, name)
        signature = "" if inspect.isclass(thing) else str(inspect.signature(thing)).replace("'", "")
        text = inspect.getdoc(thing) or ""
        lines += [f"## {name}\n", code_block(f"{name}{signature}", "python"), f"{_literal(text)}\n"]
    return "\n".join(lines)


def cli_page() -> str:
    """Returns the page of the command line: each command with its arguments and options."""
    root = typer.main.get_command(app)
    return "# Command line\n\n" + "\n".join(_command(root, "outrider"))


def _command(command: Any, path: str) -> list[str]:
    subcommands: Mapping[str, Any] = getattr(command, "commands", {})
    parts = [f"## `{path}`\n\n{_literal(inspect.cleandoc(command.help or ''))}\n"]
    rows = [
        _option(one) for one in command.params if one.name != "help" and not getattr(one, "hidden", False)
    ]
    if rows:
        parts.append(table(("argument or option", "default", "meaning"), rows))
    for name, subcommand in subcommands.items():
        parts += _command(subcommand, f"{path} {name}")
    return parts


def _option(parameter: Any) -> tuple[str, str, str]:
    names = [*parameter.opts, *parameter.secondary_opts]
    label = ", ".join(f"`{name}`" for name in names)
    default = parameter.default
    shown = "required" if parameter.required else "" if default in (None, "") else f"`{default}`"
    return label, shown, _literal(getattr(parameter, "help", None) or "")


def nodes_page() -> str:
    """Returns the page of the nodes and their parameters."""
    parts = [
        "# Nodes and parameters\n\nA *live* parameter takes effect when it is set; a *read-only* one never "
        "changes; the others are read when the node is configured. Topics that a parameter names, and those "
        "of the Go2's services, come to the topics that are listed.\n"
    ]
    for spec in NODES.values():
        module = _source(spec.module)
        about = (ast.get_docstring(module) or "").splitlines()[0]
        when = f" Started only where `{spec.wanted_by}` is set." if spec.wanted_by else ""
        again = " Started again when it ends." if spec.restarted else ""
        parts.append(f"## {spec.name}\n\nExecutable `{spec.executable}`. {_literal(about)}{when}{again}\n")
        parts.append(_topics(_modules(spec.module)))
        parts.append(
            table(("parameter", "default", "values", "meaning"), (_parameter(one) for one in spec.parameters))
        )
    return "\n".join(parts)


@cache
def _source(name: str) -> ast.Module:
    """Returns a parsed module. It is not imported, because the nodes need ROS."""
    found = importlib.util.find_spec(name)
    assert found is not None and found.origin is not None, name
    return ast.parse(Path(found.origin).read_text())


def _parameter(parameter: Parameter) -> tuple[str, str, str, str]:
    note = " (live)" if parameter.live else " (read-only)" if parameter.read_only else ""
    default = f"`{parameter.default}`" if parameter.default != "" else "empty"
    return f"`{parameter.name}`", default, _values(parameter), _literal(parameter.description) + note


def _values(parameter: Parameter) -> str:
    if parameter.choices:
        return ", ".join(f"`{choice}`" for choice in parameter.choices)
    if parameter.minimum is None:
        return type(parameter.default).__name__
    if parameter.maximum is None:
        return f"at least {_number(parameter.minimum)}"
    return f"{_number(parameter.minimum)} to {_number(parameter.maximum)}"


def _number(value: float) -> str:
    """Returns a bound as text: a whole number with all its digits."""
    return str(int(value)) if value == int(value) else f"{value:g}"


def _topics(modules: Iterable[str]) -> str:
    """Returns the topics that modules publish and subscribe to by name in the code, with message types."""
    found: dict[str, set[str]] = {"publisher": set(), "subscription": set()}
    for way, topic, message in (one for name in modules for one in _named_topics(name)):
        found.setdefault(way, set()).add(f"`{topic}` ({message.removesuffix('Msg')})")
    publishes, reads = (", ".join(sorted(found[way])) for way in ("publisher", "subscription"))
    lines = [f"Publishes {publishes}.\n" if publishes else "", f"Subscribes to {reads}.\n" if reads else ""]
    return "\n".join(line for line in lines if line)


@cache
def _named_topics(name: str) -> list[tuple[str, str, str]]:
    """Returns the use, name and type of each topic, service and action that a module's code names."""
    module = _source(name)
    imports = [one for one in module.body if isinstance(one, ast.ImportFrom)]
    known = {
        named.name: value
        for one in imports
        if str(one.module).startswith("outrider.")
        for named in one.names
        if (value := _constants(_source(str(one.module))).get(named.name)) is not None
    }
    return list(_uses(module, known | _constants(module)))


@cache
def _constants(module: ast.Module) -> Known:
    """Returns the values that a module assigns to names."""
    found: Known = {}
    for one in ast.walk(module):
        if isinstance(one, ast.Assign):
            found |= _bound(one.targets[0], one.value)
    return found


def _bound(target: ast.expr, value: ast.expr) -> Known:
    if isinstance(target, ast.Name):
        return {target.id: value}
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = zip(target.elts, value.elts, strict=False)
        return {name.id: one for name, one in pairs if isinstance(name, ast.Name)}
    return {}


def _uses(node: ast.AST, known: Known) -> Iterator[tuple[str, str, str]]:
    """Yields the uses in a piece of code; for a loop over a tuple, once for each item."""
    loop: Any = node if isinstance(node, ast.For) else getattr(node, "generators", [None])[0]
    turns = _resolved(loop.iter, known) if loop else None
    if isinstance(turns, ast.Tuple):
        inner = node.body if isinstance(node, ast.For) else [getattr(node, "elt", ast.Pass())]
        for value, child in itertools.product(turns.elts, inner):
            yield from _uses(child, known | _bound(loop.target, value))
        return
    if isinstance(node, ast.Call):
        yield from _use(node, known)
    for child in ast.iter_child_nodes(node):
        yield from _uses(child, known)


def _use(call: ast.Call, known: Known) -> Iterator[tuple[str, str, str]]:
    function = _name_of(call, known)
    way, type_at, name_at = WAYS.get(function.removeprefix("create_"), ("", 0, len(call.args)))
    if way and len(call.args) > name_at and (name := _text(call.args[name_at], known)):
        kind = EITHER_TWIST if function == "TwistInput" else _type(call.args[type_at], known)
        yield way, name, kind


def _name_of(call: ast.Call, known: Known) -> str:
    """Returns the name of the called function; for a `partial`, of the function that it wraps."""
    function = _resolved(call.func, known)
    if isinstance(function, ast.Call) and function.args and getattr(function.func, "id", "") == "partial":
        function = function.args[0]
    return getattr(function, "attr", "") or getattr(function, "id", "")


def _resolved(value: ast.expr, known: Known) -> ast.expr:
    if not isinstance(value, ast.Name) or value.id not in known:
        return value
    others = {name: one for name, one in known.items() if name != value.id}
    return _resolved(known[value.id], others)


def _text(value: ast.expr, known: Known) -> str:
    """Returns the text of an expression; empty if it is not known from the code alone."""
    value = _resolved(value, known)
    if isinstance(value, ast.Constant):
        return str(value.value)
    if isinstance(value, ast.JoinedStr):
        parts = [
            _text(getattr(one, "value", one) if isinstance(one, ast.FormattedValue) else one, known)
            for one in value.values
        ]
        return "".join(parts) if all(parts) else ""
    is_of_the_go2 = isinstance(value, ast.Call) and getattr(value.func, "attr", "") == "go2_topic"
    return _text(value.args[0], known) if is_of_the_go2 else ""  # type: ignore[attr-defined]


def _type(value: ast.expr, known: Known) -> str:
    value = _resolved(value, known)
    if isinstance(value, ast.IfExp):
        return " or ".join(sorted(_type(one, known) for one in (value.body, value.orelse)))
    return ast.unparse(value)


def _modules(name: str) -> set[str]:
    """Returns a node's module and the modules of `outrider.nodes` that it imports, without other nodes."""
    found, waiting = {name}, [name]
    while waiting:
        imports = (one for one in ast.walk(_source(waiting.pop())) if isinstance(one, ast.ImportFrom))
        helpers = {str(one.module) for one in imports if str(one.module).startswith("outrider.nodes.")}
        new = {one for one in helpers - found if not one.endswith("_node")}
        found, waiting = found | new, [*waiting, *new]
    return found


def topics_page() -> str:
    """Returns the page of all topics, services and actions: type, publishers or servers, and subscribers."""
    uses: dict[tuple[str, str], dict[str, set[str]]] = {}
    for spec in NODES.values():
        named = (one for module in _modules(spec.module) for one in _named_topics(module))
        for way, topic, message in named:
            users = uses.setdefault((topic, message.removesuffix("Msg")), {})
            users.setdefault(way, set()).add(f"[{spec.name}](nodes.md#{spec.name})")
    rows: dict[str, list[tuple[str, str, str, str]]] = {"topic": [], "service": [], "action": []}
    for (topic, message), ways in sorted(uses.items()):
        offers = {one for way, users in ways.items() if way != "subscription" for one in users}
        reads = ", ".join(sorted(ways.get("subscription", set()))) or "-"
        row = (f"`{topic}`", message, ", ".join(sorted(offers)) or "-", reads)
        rows[next((way for way in ways if way in rows), "topic")].append(row)
    offered = [
        f"\n## {way.title()}s\n\n{table((way, 'type', 'offered by'), [row[:3] for row in rows[way]])}"
        for way in ("service", "action")
    ]
    return (
        "# Topics and services\n\nA parameter names some topics more, such as that of a camera, and "
        "[record](nodes.md#record) reads what there is. The Go2's services have its own topics, "
        "`/api/.../request` and `/api/.../response`. Fields are in [Messages](interfaces.md).\n\n"
        + table(("topic", "type", "published by", "read by"), rows["topic"])
        + "".join(offered)
    )


def launch_page() -> str:
    """Returns the page of the launch files, with their nodes and arguments."""
    parts = [
        "# Launch arguments\n\nEvery launch file also takes `namespace:=`, `params_file:=` and `remap:=`; "
        "`--show-args` lists all of them.\n"
    ]
    for name, graph in LAUNCH_FILES.items():
        nodes = ", ".join(f"[{node}](nodes.md#{node})" for node in graph.nodes)
        rows = []
        for argument in (ARGUMENTS[one] for one in graph.arguments):
            parameter = argument.parameter()
            sets = ", ".join(f"`{node}.{name}`" for node, name in argument.targets if node in graph.nodes)
            rows.append((f"`{argument.name}`", sets, _values(parameter), _literal(parameter.description)))
        parts.append(
            f"## {name}.launch.py\n\nNodes: {nodes}. Parameter file: `config/{graph.parameter_file}`.\n\n"
            + table(("argument", "sets", "values", "meaning"), rows)
        )
    return "\n".join(parts)


def interfaces_page() -> str:
    """Returns the page of outrider_interfaces: the definition files of messages, services and actions."""
    parts = ["# Messages, services and actions\n\nThe package `outrider_interfaces`.\n"]
    for kind in ("msg", "srv", "action"):
        for file in sorted((INTERFACES / kind).glob(f"*.{kind}")):
            parts.append(f"## {kind}/{file.stem}\n\n{code_block(file.read_text(), 'text')}")
    return "\n".join(parts)


def frames_page() -> str:
    """Returns the page of the wire frames, by sender."""
    parts = [
        f"# Frames on the wire\n\nProtocol version {frames.PROTOCOL_VERSION}; a frame has at most "
        f"{frames.MAX_FRAME_BYTES} bytes. {_paragraph(frames)}\n"
    ]
    for title, union in (("From the robot", frames.EdgeFrame), ("From the verifier", frames.CloudFrame)):
        parts.append(f"## {title}\n")
        parts += [_frame(kind, f"### {kind.__name__}") for kind in get_args(union)]
    records = (frames.Rules, frames.AggregationRules)
    parts += ["## Records in frames\n", *(_frame(kind, f"### {kind.__name__}") for kind in records)]
    return "\n".join(parts)


def _frame(kind: type, title: str) -> str:
    annotations = inspect.get_annotations(kind)
    rows = [(f"`{name}`", f"`{annotation}`") for name, annotation in annotations.items()]
    tag = getattr(kind, "__struct_config__").tag  # noqa: B009 (msgspec adds it)
    number = f" Tag {tag}." if tag is not None else ""
    return f"{title}\n\n{_paragraph(kind)}{number}\n\n{table(('field', 'type'), rows)}"


def _paragraph(thing: Any) -> str:
    return _literal(inspect.cleandoc(thing.__doc__ or ""))


def yaml_page(title: str, file: Path) -> str:
    """Returns the page of a YAML file: the comments at the start of a line, then each entry."""
    text = file.read_text()
    head = [line.lstrip("# ") for line in text.splitlines() if line.startswith("#")]
    entries = yaml.safe_load(text)
    parts = [f"# {title}\n\nFrom `{file.relative_to(ROOT)}`.\n\n{_literal(chr(10).join(head))}\n"]
    for name, entry in entries.items():
        shown = yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=100)
        parts.append(f"## {name}\n\n{code_block(shown, 'yaml')}")
    return "\n".join(parts)


PAGES: dict[str, Callable[[], str]] = {
    "reference/cli.md": cli_page,
    "reference/api.md": api_page,
    "reference/nodes.md": nodes_page,
    "reference/launch.md": launch_page,
    "reference/topics.md": topics_page,
    "reference/interfaces.md": interfaces_page,
    "reference/frames.md": frames_page,
    "reference/links.md": lambda: yaml_page("Links", ROOT / "config" / "links.yaml"),
    "reference/regimes.md": lambda: yaml_page("Regimes", ROOT / "benchmarks" / "regimes.yaml"),
    "reference/aggregation.md": lambda: yaml_page(
        "Regimes of DRAGON", ROOT / "benchmarks" / "aggregation.yaml"
    ),
}
"""The function that writes each page, by the page's path under docs/."""


def pages() -> dict[str, str]:
    """Returns every reference page in Markdown, by its path under docs/."""
    return {path: GENERATED + write() for path, write in PAGES.items()}


def on_files(files: Any, config: Any) -> Any:
    """Adds the generated pages to the files under docs/. mkdocs calls this hook."""
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files
