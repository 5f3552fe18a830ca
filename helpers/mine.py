"""Keep what a learner has written, and assemble it: `notebooks/my_transformer.py`.

The file begins by running the course's seven files of the model in its own namespace.
Below stand the learner's parts, each as it was typed, then a line such as
`MultiHeadAttention = MyMultiHeadAttention`. So the file is a whole Transformer at any
time, in which every part uses the learner's where there is one. COURSE_MINE names
another folder; with COURSE_MINE=off nothing is kept, and nothing read.
"""

import ast
import os
import re
import shutil
import sys
import zlib
from collections.abc import Callable, MutableMapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from helpers.typed import NotKept, text_of, used_and_given

HELPERS = Path(__file__).parent
MODEL = "masks", "positions", "attention", "layers", "encoder", "decoder", "transformer"
HEAD = '''"""My Transformer: the parts that I wrote, and the course's for the others.

It is yours: read it, change it, carry it away. A check that passes adds its part.
"""

from helpers.mine import course

course(globals())
'''
# A part: its header with a checksum, the learner's text, and the line that ends it.
PART = re.compile(
    r"\n\n# ---- lesson \d\d: (\w+) \((\w+)\)\n"
    r"((?:(?!\n# ---- lesson ).)*?^\1 = .*?\n)",
    re.MULTILINE | re.DOTALL,
)
ON_THE_MAP = {
    "positions": ["positional_encoding", "PositionalEncoding"],
    "embeddings": ["TokenEmbedding"],
    "attention": ["attention"],
    "masks": ["padding_mask", "causal_mask", "decoder_mask"],
    "multi-head": ["MultiHeadAttention"],
    "feed-forward": ["FeedForward"],
    "norm": ["LayerNorm"],
    "residual": ["Residual"],
    "encoder": ["EncoderLayer", "Encoder"],
    "decoder": ["DecoderLayer", "Decoder"],
    "transformer": ["Transformer"],
}


def course(namespace: MutableMapping[str, Any]) -> None:
    """Run the course's seven files of the model in one namespace.

    Afterwards, what stands there under a component's name is what the others use.
    """
    siblings = {f"helpers.{name}" for name in MODEL}
    for file in (HELPERS / f"{name}.py" for name in MODEL):
        tree = ast.parse(file.read_text("utf-8"))
        body = tree.body[1:]  # the docstring would become the namespace's own
        tree.body = [x for x in body if getattr(x, "module", "") not in siblings]
        exec(compile(tree, str(file), "exec"), namespace)
    # Not by PyTorch's fused function, but by what is called `attention` there.
    namespace["MultiHeadAttention"].observer = staticmethod(lambda weights: None)


def path() -> Path | None:
    """The learner's file, whether it is there or not; None if nothing is kept."""
    folder = os.environ.get("COURSE_MINE") or HELPERS.parent / "notebooks"
    file = Path(folder).expanduser() / "my_transformer.py"
    return None if folder == "off" else file.resolve()


def parts() -> list[str]:
    """The names of the learner's parts, in the order of the file."""
    return [found[1] for found in PART.finditer(_text())]


def take(*names: str, otherwise: Any = None) -> Any:
    """The components of these names, in which all that the learner wrote is used.

    Prints whose they are. A broken file gets a message, and the course's stand in; of
    what is not in the model's seven files, `otherwise`. ValueError for a name that the
    model does not have.
    """
    course = {name: otherwise or _of_the_course(name) for name in names}
    yours, namespace = [], course
    try:
        if found := parts():
            yours, namespace = found, course | vars(_loaded(_text()))
    except Exception as error:
        print(f"{path().name} is left out, as it stops with {says(error)}")
    model = {name for group in ON_THE_MAP.values() for name in group}
    for name in names:
        others = model - {*names} if name in model - {*yours} else ()
        inside = [part for part in yours if part in others]
        also = f", with your {', '.join(inside)}" if inside else ""
        print(f"{name}: " + ("yours" if name in yours else f"the course's{also}"))
    found = [namespace[name] for name in names]
    return found[0] if len(found) == 1 else found


def show() -> None:
    """Print which parts are the learner's, and draw them in colour on the map."""
    from helpers.plots import architecture_map

    yours = parts()
    print("yours so far:", ", ".join(yours) or "nothing yet")
    if yours:
        architecture_map(*(x for x in ON_THE_MAP if {*yours} & {*ON_THE_MAP[x]}))


def forget(name: str) -> None:
    """Take a part out of the file; the old file becomes my_transformer.before.py."""
    if name not in parts():
        raise ValueError(
            f"{name!r} is not yours, only {', '.join(parts()) or 'nothing'}"
        )
    _store(_whole(_without(name)), keep_old=True)


@torch.no_grad()
def twin(model: nn.Module) -> nn.Module:
    """The course's Transformer with the weights of a learner's, for caches and maps.

    ValueError unless both give the same logits, to 1e-4, for a batch of random ids.
    """
    from helpers.transformer import Transformer, TransformerConfig

    config, training = TransformerConfig(**vars(model.config)), model.training
    device = next(model.parameters()).device
    other, chance = Transformer(config).to(device), torch.Generator().manual_seed(0)
    yours = dict(model.named_parameters(remove_duplicate=False))
    for name, weight in other.named_parameters():
        weight.copy_(yours[name])
    source = torch.randint(config.source_vocab, (3, 7), generator=chance)
    target = torch.randint(config.target_vocab, (3, 6), generator=chance)
    source[0, 5:], source[:, 0], target[:, 0] = 0, 2, 2
    logits = [x.eval()(source.to(device), target.to(device)) for x in (model, other)]
    model.train(training), other.train(training)
    apart = (logits[0] - logits[1]).abs().max().item()
    if not apart < 1e-4:
        text = f"the course's Transformer gives other logits, by {apart:.2g}"
        raise ValueError(f"{text}: is a part altered? Run your checks again")
    return other


def keep(name: str, answer: Any, lesson: str, check: Callable[[Any], bool]) -> str:
    """Put a right answer into the file as the component `name`; what is said of it.

    A candidate of the file is loaded first, and its part checked once more.
    """
    if (file := path()) is None:
        return ""
    try:
        before = next((x for x in PART.finditer(_text()) if x[1] == name), None)
        base = _without(name)
        text = text_of(name, answer, base, {*vars(_loaded(base))})
        if before and before[2] == _checksum(text):
            edited = before[2] != _checksum(before[3])
            return f"  {name} stays in {file.name}" + " as you edited it" * edited
        header = f"# ---- lesson {lesson}: {name} ({_checksum(text)})"
        new = _whole(f"{base}\n\n{header}\n{text}")
        if not check(getattr(_loaded(new), name)):
            raise NotKept("in the file it does something else than here")
        _store(new, keep_old=before is not None)
    except Exception as error:
        why = error if isinstance(error, NotKept) else says(error)
        return f"  right, but not kept in {file.name}: {why}"
    old = "; the file as it was is my_transformer.before.py" if before else ""
    return f"  kept in {file.name} as {name}{old}"


def _whole(source: str) -> str:
    """The text, if each of its parts finds all names that it uses; else NotKept."""
    known = {*vars(_loaded(source))}
    for part in PART.finditer(source):
        if gone := sorted(used_and_given(part[3])[0] - known):
            raise NotKept(f"{part[1]} uses `{gone[0]}`, which would be gone")
    return source


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


def _text() -> str:
    """What stands in the file; its head alone where there is none."""
    file = path()
    return file.read_text("utf-8") if file and file.exists() else HEAD


def _without(name: str) -> str:
    """What stands in the file, without the part of this name."""
    return PART.sub(lambda found: "" if found[1] == name else found[0], _text())


def _loaded(source: str) -> ModuleType:
    """The text as a module."""
    module = ModuleType("my_transformer")
    exec(compile(source, str(path()), "exec"), vars(module))
    return module


def _store(source: str, keep_old: bool) -> None:
    """Write the file whole or not at all; the old one can stay beside it."""
    file = path()
    file.parent.mkdir(parents=True, exist_ok=True)
    if keep_old:
        shutil.copy2(file, file.with_name("my_transformer.before.py"))
    new = file.with_name(f"{file.name}.new")
    new.write_text(source, "utf-8")
    new.replace(file)
    sys.modules.pop("my_transformer", None)  # the next import reads it anew


def _of_the_course(name: str) -> Any:
    """The component of this name that helpers keeps."""
    for module in (import_module(f"helpers.{x}") for x in MODEL):
        if hasattr(module, name):
            return getattr(module, name)
    raise ValueError(f"the course's model has no {name!r}")


def says(error: BaseException) -> str:
    """The exception's type and the first line of its message."""
    line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
    return f"{type(error).__name__}: {error}".partition("\n")[0] + line
