# SPDX-License-Identifier: Apache-2.0
"""Reads ROS parameter files in all of ROS's forms: namespaces, wildcards, dumps, other packages' sections."""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from outrider.core.errors import ConfigError
from outrider.core.files.given_file import cause_of, read_text
from outrider.core.files.private_files import write_private
from outrider.runtime.node_graph.node_specs import NODES
from outrider.runtime.node_graph.parameters import NodeSpec, Value, is_ros_own, near_name

MARK = "ros__parameters"
_log = logging.getLogger(__name__)
Note = Callable[[str], None]


@dataclass(frozen=True)
class Section:
    """The values under one `ros__parameters`.

    `address` is absolute and may contain the wildcards * and **.
    """

    address: str
    values: Mapping[str, Any]

    @property
    def namespace(self) -> str:
        """Returns the part of the address before the node's name."""
        return self.address.rpartition("/")[0]

    @property
    def node(self) -> str:
        """Returns the node's name, which may be a wildcard."""
        return self.address.rpartition("/")[2]

    @property
    def names_a_node(self) -> bool:
        """Whether the section is for a single named node."""
        return "*" not in self.node

    @property
    def names_a_namespace(self) -> bool:
        """Whether the namespace is given and holds no wildcard."""
        return bool(self.namespace) and "*" not in self.namespace

    def reaches(self, node: str, namespace: str) -> bool:
        """Whether it applies to a node of the robot in `namespace`, "" for a robot without one.

        A section without a namespace is for every robot. A robot without one accepts those of any
        namespace.
        """
        if not namespace or not self.namespace:
            return _matches(f"/{self.node}", f"/{node}")
        return _matches(self.address, f"{namespace}/{node}")


def read_parameter_file(
    path: Path, namespace: str = "", note: Note = _log.warning
) -> dict[str, dict[str, Any]]:
    """Returns the parameters that a ROS parameter file gives to each node of the robot in `namespace`.

    The namespace begins with a slash, or is empty. A more specific section takes precedence: /** is
    weakest, then /go2/**, action, and /go2/action. `note` gets a message for each part that is ignored.
    Raises ConfigError for an unreadable file and for a likely typo.
    """
    parameters: dict[str, dict[str, Any]] = {}
    try:
        sections = [s for s in _sections(_load(path)) if _is_ours(s, namespace, note)]
        _check_one_robot(sections, namespace)
        for section in sorted(sections, key=lambda s: (s.names_a_node, s.names_a_namespace)):
            for spec in (s for s in NODES.values() if section.reaches(s.name, namespace)):
                values = section.values if section.names_a_node else _known(spec, section.values)
                if values or section.names_a_node:
                    parameters[spec.name] = {**parameters.get(spec.name, {}), **values}
    except ConfigError as error:
        raise ConfigError(f"parameter file {path}: {error}") from error
    return parameters


def write_parameter_file(
    path: Path, parameters: Mapping[str, Mapping[str, Value]], namespace: str = ""
) -> None:
    """Write a ROS parameter file of these parameters, which may name private things.

    It is for nodes in `namespace`, such as /go2, or "".
    """
    content = {f"{namespace}/{node}": {MARK: dict(values)} for node, values in parameters.items()}
    write_private(path, yaml.safe_dump(content, sort_keys=True))


class _Loader(yaml.SafeLoader):
    """YAML as ROS reads it: a section given twice is merged, and 1e-1 is a number."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[str, Any]:
    loader.flatten_mapping(node)
    merged: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key, value = (
            str(loader.construct_object(key_node, deep=True)),
            loader.construct_object(value_node, True),
        )
        if isinstance(value, dict) and isinstance(merged.get(key), dict):
            value = _merged(merged[key], value, key_node)
        elif key in merged:
            raise ConfigError(f"{key} is given twice, again in line {key_node.start_mark.line + 1}")
        merged[key] = value
    return merged


def _merged(first: dict[str, Any], second: dict[str, Any], node: yaml.Node) -> dict[str, Any]:
    """Returns the merged mappings of one key. Raises ConfigError for a value that both give."""
    merged = dict(first)
    for key, value in second.items():
        if isinstance(value, dict) and isinstance(merged.get(key), dict):
            value = _merged(merged[key], value, node)
        elif key in merged:
            raise ConfigError(f"{key} is given twice, again below line {node.start_mark.line + 1}")
        merged[key] = value
    return merged


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def _load(path: Path) -> dict[str, Any]:
    try:
        content = yaml.load(read_text(path), _Loader)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot be read: {cause_of(error)}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"must map node names to {MARK}")
    return content


def _sections(tree: Mapping[str, Any], above: str = "") -> Iterator[Section]:
    """Yields every section. Nested keys and keys with slashes are both namespaces."""
    for key, value in tree.items():
        address = f"{above}/{key.strip('/')}"
        if not isinstance(value, dict) or not value:
            raise ConfigError(f"{address.lstrip('/')!r} must stand above or below {MARK}")
        if MARK in value:
            values = {} if value[MARK] is None else value[MARK]
            if not isinstance(values, dict):
                raise ConfigError(f"{MARK} of {address} must map names to values, not be {values!r}")
            yield Section(address, values)
        yield from _sections({name: below for name, below in value.items() if name != MARK}, address)


def _matches(pattern: str, name: str) -> bool:
    """Whether a node's full name matches an address: * stands for one of its words, ** for any number."""
    words = (re.escape(word) for word in pattern.split("/")[1:])
    forms = {r"\*": "/[^/]+", r"\*\*": "(/[^/]+)*"}
    return re.fullmatch("".join(forms.get(word, f"/{word}") for word in words), name) is not None


def _is_ours(section: Section, namespace: str, note: Note) -> bool:
    """Whether the section is for nodes of this robot. Notes ignored ones; raises ConfigError for a typo."""
    if not section.names_a_node:
        _note_unknown(section, note)
    elif section.node not in NODES:
        _check_name(section)
        note(f"section {section.address} is for a node of another package: left out")
        return False
    elif section.names_a_namespace and not namespace and _is_foreign(NODES[section.node], section.values):
        note(f"section {section.address} holds no parameter of Outrider's {section.node}: left out")
        return False
    reached = any(section.reaches(node, namespace) for node in NODES)
    if not reached:
        note(f"section {section.address} is not for namespace {namespace}: left out")
    return reached


def _note_unknown(section: Section, note: Note) -> None:
    """Note unknown parameters in a section for all nodes. Raises ConfigError if one is a likely typo."""
    known = [p.name for spec in NODES.values() for p in spec.parameters]
    unknown = [name for name in section.values if name not in known and not is_ros_own(name)]
    for name in unknown:
        if near := near_name(name, known, 0.85):
            raise ConfigError(f"section {section.address}: unknown parameter {name}: did you mean {near}?")
    if unknown:
        note(f"section {section.address}: no node of Outrider has {', '.join(unknown)}: left out")


def _check_name(section: Section) -> None:
    """Raise ConfigError if a node's name resembles one of Outrider's, and the section has its parameters."""
    names = {spec.name: spec for spec in NODES.values()} | {spec.executable: spec for spec in NODES.values()}
    near = difflib.get_close_matches(section.node, names, 1, 0.75)
    own = [name for name in section.values if not is_ros_own(name)]
    if near and own and 2 * len(_known(names[near[0]], own)) >= len(own):
        raise ConfigError(f"section {section.address} names no node: did you mean {names[near[0]].name}?")


def _is_foreign(spec: NodeSpec, values: Mapping[str, Any]) -> bool:
    known = [parameter.name for parameter in spec.parameters]
    own = [name for name in values if not is_ros_own(name)]
    return bool(own) and not any(near_name(name, known) for name in own)


def _known(spec: NodeSpec, values: Mapping[str, Any] | Sequence[str]) -> dict[str, Any]:
    """Returns those of the values that a node has, or that every ROS node has."""
    known = {parameter.name for parameter in spec.parameters}
    named = values if isinstance(values, Mapping) else dict.fromkeys(values)
    return {name: value for name, value in named.items() if name in known or is_ros_own(name)}


def _check_one_robot(sections: Sequence[Section], namespace: str) -> None:
    """Raise ConfigError if a robot without a namespace would accept the sections of several."""
    named = sorted({section.namespace for section in sections if section.names_a_namespace})
    if not namespace and len(named) > 1:
        raise ConfigError(f"is for robots in the namespaces {', '.join(named)}: say which by namespace:=")
