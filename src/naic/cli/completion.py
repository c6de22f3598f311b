"""`naic completion SHELL`: a script that completes verbs, options, choices and file names.

The script holds all it needs: pressing TAB starts no Python. What it knows comes from `OPTIONS` in
the file of each verb: the dataclass, or the function, that its command line is parsed by; or a
dataclass for each of its tasks.
"""

import dataclasses
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import tyro
from tyro.conf import FlagCreatePairsOff, Positional, arg

from naic.cli.main import VERBS
from naic.plugins import OPTION

HELP = """Print a script that completes naic's verbs, options, choices and file names.

  bash   naic completion bash > ~/.local/share/bash-completion/completions/naic
  zsh    naic completion zsh > DIR/_naic, for a DIR of your $fpath
  fish   naic completion fish > ~/.config/fish/completions/naic.fish

Then open a new shell. Give the command again after an update of naic."""

Kind = Literal["flag", "files", "folders", "models", "words", "text"]
Shell = Literal["bash", "zsh", "fish"]
_FOLDERS = ("DIR", "STORE", "MODEL_WITH_BACKBONE", "TEACHER")
_MODELS = ("MODEL",)  # folders, and graphs of `naic export`
_DEVICES = ("auto", "cpu", "cuda")
_SHOWN: Any = type(arg(metavar="X"))  # what `arg` leaves in a type for tyro


@dataclass(frozen=True, slots=True)
class Option:
    """An option: all its names, and what comes after it."""

    names: tuple[str, ...]
    kind: Kind
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb: its options, and the words that may stand where no option does."""

    name: str
    what: str
    options: tuple[Option, ...]
    words: tuple[str, ...]

    def of_kind(self, *kinds: Kind) -> list[str]:
        """The names of the options of these kinds."""
        return [name for option in self.options if option.kind in kinds for name in option.names]


def run(arguments: Sequence[str]) -> int:
    """Print the script."""
    shell = tyro.cli(_completion, prog="naic completion", description=HELP, args=list(arguments))
    scripts: dict[Shell, Callable[[list[Verb]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
    print(scripts[shell]([describe(verb) for verb in VERBS]))
    return 0


def _completion(shell: tyro.conf.Positional[Shell]) -> Shell:
    """Take the options.

    Args:
        shell: For which shell.
    """
    return shell


def describe(verb: str) -> Verb:
    """A verb as its options tell of it."""
    options = [Option(("-h", "--help"), "flag"), Option((OPTION,), "text")]
    if verb == "prepare":
        options.append(Option(("--config",), "files"))  # a file with any of the others
    source = importlib.import_module(VERBS[verb][0]).OPTIONS
    tasks = source if isinstance(source, Mapping) else {}  # with options of its own for each
    words = tuple(tasks)
    for own in tasks.values() or [source]:
        for name, kind in _fields(own):
            found = read_field(name, kind)
            if not isinstance(found, Option):
                words = words or found
            elif found not in options:
                options.append(found)
    return Verb(verb, VERBS[verb][1], tuple(options), words)


def _fields(source: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    """The names and types of what a dataclass or a function takes, and of what is in these."""
    for name, kind in get_type_hints(source, include_extras=True).items():
        if dataclasses.is_dataclass(kind):
            yield from _fields(kind, f"{prefix}{name}.")
        elif name not in ("return", "_"):  # nor the mark that only options follow
            yield prefix + name, kind


def read_field(name: str, kind: Any) -> Option | tuple[str, ...]:  # noqa: ANN401
    """An option by its field; of a place where no option stands, the words that may."""
    notes = get_args(kind)[1:] if get_origin(kind) is Annotated else ()
    bare = get_args(kind)[0] if notes else kind
    metavar = next((note.metavar for note in notes if isinstance(note, _SHOWN)), None) or ""
    words = _words(bare) or (tuple(metavar[1:-1].split(",")) if metavar[:1] == "{" else ())
    if Positional in notes:
        return words
    option = f"--{name.replace('_', '-')}"
    if bare is bool:
        single = FlagCreatePairsOff in notes
        return Option((option,) if single else (option, f"--no-{option[2:]}"), "flag")
    if name.endswith("device"):
        return Option((option,), "words", _DEVICES)
    if words:
        return Option((option,), "words", words)
    takes = metavar.removesuffix("...").strip(" []")
    known: dict[Kind, tuple[str, ...]] = {"folders": _FOLDERS, "models": _MODELS}
    paths: Kind = "files" if Path in (bare, *get_args(bare)) or takes == "PATH" else "text"
    return Option((option,), next((one for one in known if takes in known[one]), paths))


def _words(kind: Any) -> tuple[str, ...]:  # noqa: ANN401
    """The words that a type allows, alone, optional or in a list; empty: any."""
    if get_origin(kind) is Literal:
        return tuple(map(str, get_args(kind)))
    return next((found for inner in get_args(kind) if (found := _words(inner))), ())


def _cases(verbs: list[Verb], answer: Callable[[str, Option | None], str]) -> list[str]:
    """A branch for each way in which a value is completed: `answer(kind, option)`."""
    lines = []
    kinds: tuple[Kind, ...] = ("folders", "models", "files", "text")
    for kind in kinds:
        named = [f'"{verb.name} {name}"' for verb in verbs for name in verb.of_kind(kind)]
        if named:
            lines.append(f"        {'|'.join(named)}) {answer(kind, None)} ;;")
    for verb in verbs:
        for option in verb.options:
            if option.kind == "words":
                named = [f'"{verb.name} {name}"' for name in option.names]
                lines.append(f"        {'|'.join(named)}) {answer('words', option)} ;;")
    return lines


def bash(verbs: list[Verb]) -> str:
    """For bash 3.2 (macOS) and later."""

    def answer(kind: str, option: Option | None) -> str:
        if option is not None:
            return f'_naic_words "{" ".join(option.words)}"; return'
        graphs = "_naic_paths -f -X '!*.onnx'"
        return {
            "folders": "_naic_paths -d; return",
            "models": f"_naic_paths -d; {graphs}; return",
            "files": "_naic_paths -f; return",
        }.get(kind, "return")

    options = [f'        {v.name}) words="{_all_options(v)}" ;;' for v in verbs]
    places = [
        f'        "2 {v.name}") _naic_words "{" ".join(v.words)}"; return ;;'
        for v in verbs
        if v.words
    ]
    return "\n".join(
        [
            "# naic for bash, made by `naic completion bash`",
            "_naic_words() {",
            "    local word",
            '    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -W "$1" '
            '-- "$current")',
            "}",
            "_naic_paths() {",
            "    local path",
            "    compopt -o filenames 2>/dev/null",
            '    while IFS= read -r path; do COMPREPLY+=("$path"); done < <(compgen "$@" '
            '-- "$current")',
            "}",
            "_naic() {",
            '    local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"',
            '    local verb="${COMP_WORDS[1]}" words=""',
            "    COMPREPLY=()",
            '    if [[ $current == "=" ]]; then current=""',
            '    elif [[ $before == "=" ]]; then before="${COMP_WORDS[COMP_CWORD-2]}"; fi',
            "    if (( COMP_CWORD == 1 )); then",
            f'        _naic_words "{" ".join(v.name for v in verbs)} --help --version"; return',
            "    fi",
            '    case "$verb $before" in',
            *_cases(verbs, answer),
            "    esac",
            "    if [[ $current == -* ]]; then",
            '        case "$verb" in',
            *(f"    {line}" for line in options),
            "        esac",
            '        _naic_words "$words"; return',
            "    fi",
            '    case "$COMP_CWORD $verb" in',
            *places,
            "    esac",
            "    _naic_paths -f",
            "}",
            "complete -F _naic naic",
        ]
    )


def zsh(verbs: list[Verb]) -> str:
    """For zsh's own completion."""

    def answer(kind: str, option: Option | None) -> str:
        if option is not None:
            return f"compadd -- {' '.join(option.words)}; return"
        return {
            "folders": "_files -/; return",
            # Not _files: where no graph is, it would offer any file.
            "models": "_path_files -/; _path_files -g '*.onnx'; return",
            "files": "_files; return",
        }.get(kind, "return")

    options = [f"        {v.name}) compadd -- {_all_options(v)} ;;" for v in verbs]
    places = [
        f'        "3 {v.name}") compadd -- {" ".join(v.words)}; return ;;' for v in verbs if v.words
    ]
    return "\n".join(
        [
            "#compdef naic",
            "# naic for zsh, made by `naic completion zsh`",
            "_naic() {",
            "    local verb=$words[2] before=$words[CURRENT-1]",
            "    if [[ $PREFIX == --*=* ]]; then before=${PREFIX%%=*}; compset -P '*='; fi",
            "    if (( CURRENT == 2 )); then",
            "        local -a verbs",
            f"        verbs=({' '.join(_quoted(f'{v.name}:{v.what}') for v in verbs)})",
            "        _describe verb verbs; return",
            "    fi",
            '    case "$verb $before" in',
            *_cases(verbs, answer),
            "    esac",
            "    if [[ $PREFIX == -* ]]; then",
            "        case $verb in",
            *(f"    {line}" for line in options),
            "        esac",
            "        return",
            "    fi",
            '    case "$CURRENT $verb" in',
            *places,
            "    esac",
            "    _files",
            "}",
            'if [[ $funcstack[1] == _naic ]]; then _naic "$@"; else compdef _naic naic; fi',
        ]
    )


def fish(verbs: list[Verb]) -> str:
    """For fish: a line for each verb and option."""
    folders = "__fish_complete_directories"
    graphs = '__fish_complete_suffix .onnx | string match "*.onnx*"'
    takes = {
        "flag": "",
        "folders": f" -x -a '({folders})'",
        "models": f" -x -a '({folders}; {graphs})'",
        "files": " -r -F",
    }
    lines = ["# naic for fish, made by `naic completion fish`"]
    for verb in verbs:
        what = _quoted(verb.what)
        lines.append(f"complete -c naic -f -n __fish_use_subcommand -a {verb.name} -d {what}")
        within = f"complete -c naic -n '__fish_seen_subcommand_from {verb.name}'"
        if verb.words:
            lines.append(f"{within} -a '{' '.join(verb.words)}'")
        for option in verb.options:
            names = "".join(
                f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}"
                for name in option.names
            )
            value = f" -x -a '{' '.join(option.words)}'" if option.words else ""
            lines.append(f"{within}{names}{value or takes.get(option.kind, ' -x')}")
    return "\n".join(lines)


def _all_options(verb: Verb) -> str:
    return " ".join(name for option in verb.options for name in option.names)


def _quoted(text: str) -> str:
    escaped = text.replace("'", "'\\''")
    return f"'{escaped}'"


OPTIONS = _completion  # what the verb takes: shell completion finds it here
