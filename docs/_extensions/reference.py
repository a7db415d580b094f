"""Directives of the reference: `public` shows a module's public names from their docstrings, `commands` those of `fpi`.

Docstrings of fpi are Markdown, which is why this is not autodoc.
"""

import importlib
import inspect
import re

import public_names
import typer
from sphinx.util.docutils import SphinxDirective

FENCE = "`" * 3


class Public(SphinxDirective):
    """`{public} fpi.features`"""

    required_arguments = 1

    def run(self):
        (module,) = self.arguments
        names = public_names.names_of(module)
        things = {name: getattr(importlib.import_module(module), name) for name in names}
        lines = [line for name, thing in things.items() for line in entry(public_names.address(module, name), thing)]
        return self.parse_text_to_nodes("\n".join(lines))


class Commands(SphinxDirective):
    """Every command with its arguments and options, as `--help` has them."""

    def run(self):
        from fpi.cli import app

        lines = described("fpi", typer.main.get_command(app))
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


def described(words, group):
    """The Markdown of the commands of a group, and of the groups among them."""
    lines = []
    for name, command in group.commands.items():
        about, _, example = command.help.partition("Example: ")
        lines += [f"## {words} {name}", "", *escaped(about).splitlines(), ""]
        lines += [f"{FENCE}console", f"$ {example}", FENCE, ""] if example else []
        for each in command.params:
            lines += [f"`{spelled(each)}`", f": {explained(each)}", ""]
        lines += described(f"{words} {name}", command) if hasattr(command, "commands") else []
    return lines


def entry(address, thing, fence=":::::::"):
    """The Markdown of one name: signature, docstring, arguments, and for a class its methods."""
    if public_names.is_value(thing):
        note = public_names.words()[address.rpartition(".")[2]]
        shown = [f":value: {thing!r}"] if isinstance(thing, int | float | str) else []
        return [f"{fence}{{py:data}} {address}", *shown, "", note, fence, ""]
    kind, inside = ("class", public_names.methods(thing)) if inspect.isclass(thing) else ("function", {})
    text = public_names.docstring(thing)
    known = public_names.arguments(thing)
    if kind == "class" and thing.__init__.__doc__ and thing.__init__.__doc__ != object.__init__.__doc__:
        text += "\n\n" + (inspect.getdoc(thing.__init__) or "")
    lines = [f"{fence}{{py:{kind}}} {address}{signature(thing, known)}", "", *markdown(text), *listed(known, thing)]
    for name, method in inside.items():
        lines += member(name, method, text)
    return [*lines, fence, ""]


def member(name, method, around, fence="::::::"):
    if isinstance(method, classmethod | staticmethod):
        option, plain = f":{type(method).__name__}:", method.__func__
    else:
        option, plain = "", getattr(method, "fget", None) or getattr(method, "func", None) or method
    text = public_names.docstring(method) or public_names.docstring(plain)
    if not inspect.isfunction(method) and not option:
        return [f"{fence}{{py:property}} {name}", "", *markdown(text), fence, ""]
    known = public_names.arguments(plain, around)
    return [
        f"{fence}{{py:method}} {name}{signature(plain, known)}",
        option,
        "",
        *markdown(text),
        *listed(known, plain),
        fence,
        "",
    ]


def signature(thing, known):
    """Names and defaults; types are in the list of arguments."""
    try:
        parameters = inspect.signature(thing).parameters
    except (TypeError, ValueError):
        return ""
    kept = [parameters[each.name].replace(annotation=inspect.Parameter.empty) for each in known]
    return str(inspect.Signature(kept)).replace("\n", " ")


def listed(known, thing):
    lines = ["", "{.arguments}"] if known else []
    for name, kind, text in known:
        lines.append(f"- `{name}`{f' ({kind_shown(kind)})' if kind else ''}{f': {escaped(text)}' if text else ''}")
    failures = public_names.raised(thing)
    raises = f"Raises {', '.join(f'`fpi.errors.{name}`' for name in failures)}."
    return [*lines, "", *([raises, ""] if failures else [])]


def kind_shown(kind):
    return f"*{escaped(kind)}*"


def markdown(text):
    """A docstring as Markdown: examples get their fence, and formulas keep their signs."""
    lines, example = [], False
    for line in text.splitlines():
        begins = line.lstrip().startswith(">>>")
        if begins and not example:
            lines += [f"{FENCE}python"]
            example = True
        elif example and not line.strip():
            lines += [FENCE]
            example = False
        lines.append(line.strip() if example and begins else line if example else escaped(line))
    return [*lines, FENCE, ""] if example else [*lines, ""]


def escaped(text):
    """What Markdown would take for markup, outside of code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(each if each.startswith("`") else re.sub(r"([*_|<$\[\]\\])", r"\\\1", each) for each in parts)


def spelled(option):
    if option.param_type_name == "argument":
        return option.metavar if option.required else f"[{option.metavar}]"
    return f"{', '.join(option.opts)} {option.metavar or ''}".strip()


def explained(option):
    default = option.show_default if isinstance(option.show_default, str) else option.default
    shown = isinstance(option.show_default, str) or (option.show_default and default not in (None, False, ()))
    return escaped(" ".join((option.help or "").split())) + (f" Default: {escaped(str(default))}." if shown else "")


def setup(app):
    app.add_directive("public", Public)
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
