"""Watching a training run: what its tensors look like, step by step, in a folder that the program reads."""

from __future__ import annotations

import atexit
import datetime
import functools
import json
import operator
import os
import re
import warnings
import weakref
import webbrowser
from typing import Any, Iterable, Iterator, Mapping, Sequence

import torch

from .. import _narrow
from .._arrays import plan
from ._attention import scores, show_attention
from ._recorder import Hook, shown
from ._run_folder import RunFolder, number
from ._tallies import Later, Tallies
from ._tensorboard import Board

PAGE = "watched_run,gradient_underflow"  # the experiments whose answers are about a run alone
SCALED = ("gradient", "activation_gradient")


def _patterns(argument: str, given: str | Iterable[str] | None) -> list[re.Pattern[str]]:
    words = [given] if isinstance(given, str) else list(given or ())
    try:
        return [re.compile(word) for word in words]
    except (re.error, TypeError) as error:
        raise ValueError(f"{argument}: {words!r} are no regular expressions ({error})") from None


def _tensors(name: str, output: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors in what a module returned; those in a tuple or a dict with their place."""
    if isinstance(output, torch.Tensor):
        yield name, output
    elif isinstance(output, Mapping):
        for key, part in output.items():
            yield from _tensors(f"{name}[{key}]", part)
    elif isinstance(output, (tuple, list)):
        for i, part in enumerate(output):
            yield from _tensors(f"{name}[{i}]", part)


def _in_backward() -> bool:
    """A forward pass that runs now is a checkpoint's second one."""
    return torch._C._current_graph_task_id() != -1


class Watch:
    """A run that is watched; see watch(). As a context it closes itself."""

    def __init__(self, model: Any, optimizer: Any, scaler: Any, every: Any, formats: Any, to: Any, include: Any,
                 exclude: Any, tensorboard: Any, resume: bool, step: int | None, signs: bool) -> None:  # fmt: skip
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"model: a torch.nn.Module is needed, not {type(model).__name__}")
        if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f"optimizer: one of torch.optim is needed, not {type(optimizer).__name__}")
        if scaler is not None and not isinstance(scaler, torch.amp.GradScaler):
            raise TypeError(f"scaler: a torch.amp.GradScaler is needed, not {type(scaler).__name__}")
        try:
            steps = frozenset(map(operator.index, every)) if isinstance(every, Iterable) else None
        except TypeError:
            raise ValueError(f"every: {every!r}; right are an integer from 1 on, or the numbers of steps") from None
        numbers = [("step", 0 if step is None else step, 0)]
        numbers += [("every", every, 1)] if steps is None else [("every", n, 0) for n in steps]
        for name, value, least in numbers:
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name}: {value!r}; right are integers from {least} on")
        if steps is not None and not steps:
            raise ValueError("every: no step is named")
        words = [formats] if isinstance(formats, str) or not isinstance(formats, Iterable) else list(formats)
        if any(_narrow.is_block_format(str(word)) for word in words):
            raise ValueError(f"formats: {formats!r}; right are names of formats without blocks, or none")
        names = list(dict.fromkeys(plan(word).name for word in words))
        self._model = getattr(model, "_orig_mod", model)  # of torch.compile
        self._optimizer, self._every, self._steps = optimizer, every, steps
        self._scaler: Any = scaler
        self._signs = bool(signs)
        self._include, self._exclude = _patterns("include", include), _patterns("exclude", exclude)
        self._names = names
        self._tallies = Tallies(names or ["fp16"])  # largest and smallest values come with the counts of a format
        self._check_model()
        about = {"narrow_run": 1, "narrow": _narrow.version(), "model": type(self._model).__name__,
                 "every": every if steps is None else sorted(steps),
                 "formats": names, "started": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%dT%H:%M:%SZ}",
                 "torch": str(torch.__version__).partition("+")[0]}  # fmt: skip
        self._board = None if tensorboard in (None, False) else Board(tensorboard)
        self._folder = RunFolder(to, about, resume)
        last = self._folder.last_step
        if step is not None and step <= last:
            raise ValueError(f"step: {step}, but the run has records of steps up to {last}; right are larger ones")
        self._step = last + 1 if step is None else step
        if self._board is not None:
            self._board.open(self._folder.path)
        self._handles: list[Any] = []  # of this step
        self._stack: list[tuple[str, bool]] = []  # modules around the one that runs, and whether their pass counts
        self._said: set[str] = set()
        self._late: list[tuple[int, str, float | None, Later]] = []
        self._is_open = True
        self._lasting = [] if optimizer is None else [
            optimizer.register_step_pre_hook(self._before_step), optimizer.register_step_post_hook(self._after_step)
        ]  # fmt: skip
        self._wrapped: dict[str, Any] = {}
        if scaler is not None:
            self._wrap("unscale_", self._unscale)
            self._wrap("update", self._update)
        alive = weakref.ref(self)

        def at_exit() -> None:
            if (watch := alive()) is not None:
                watch.close()

        self._at_exit = at_exit
        atexit.register(self._at_exit)
        self._begin()

    def _check_model(self) -> None:
        parameters = dict(self._model.named_parameters())
        names = [*parameters, *(name or type(self._model).__name__ for name, _ in self._model.named_modules())]
        for argument, patterns in (("include", self._include), ("exclude", self._exclude)):
            for pattern in patterns:
                if not any(map(pattern.search, names)):
                    raise ValueError(f"{argument}: {pattern.pattern!r} is found in no name of a module or parameter")
        if not any(map(self._is_chosen, names)):
            raise ValueError("include, exclude: they leave nothing to watch")
        for name, p in parameters.items():
            if p.is_cuda and self._tallies.why_no_device:
                raise ValueError(f"model: {name} is on a CUDA device, and {self._tallies.why_no_device}")
        if self._optimizer is not None and parameters:
            held = {id(p) for group in self._optimizer.param_groups for p in group["params"]}
            if not any(id(p) in held for p in parameters.values()):
                raise ValueError("optimizer: it holds no parameter of the model")

    @property
    def folder(self) -> str:
        """Where the records are."""
        return str(self._folder.path)

    @property
    def step(self) -> int:
        """The number of the step that is going on."""
        return self._step

    def _is_chosen(self, name: str) -> bool:
        included = not self._include or any(p.search(name) for p in self._include)
        return included and not any(p.search(name) for p in self._exclude)

    # ---- a step: it begins with hooks where it is watched, and ends with its records

    def _begin(self) -> None:
        self._is_watched = self._step % self._every == 0 if self._steps is None else self._step in self._steps
        self._read: set[str] = set()  # what is read once: parameters, gradients
        self._roles: set[str] = set()
        self._before: dict[str, torch.Tensor] = {}
        self._left_out, self._has_modules = False, False
        self._largest: float | None = None
        if not self._is_watched:
            return
        for name, module in self._model.named_modules():
            name = name or type(self._model).__name__
            is_leaf, takes_hooks = next(module.children(), None) is None, not isinstance(module, torch.jit.ScriptModule)
            if (is_leaf or isinstance(module, torch.nn.MultiheadAttention)) and self._is_chosen(name):
                self._has_modules = True
                if takes_hooks:
                    self._handles.append(module.register_forward_hook(Hook(self._see_output, name)))
            if not is_leaf and takes_hooks:
                self._handles += [
                    module.register_forward_pre_hook(Hook(self._enter, name)),
                    module.register_forward_hook(Hook(self._leave), always_call=True),
                ]

    def _end(self, scale: Later | None = None) -> None:
        if self._is_watched:
            self._see_parameters()
            self._see_gradients()
            self._unhook()
            self._guarded(self._write_tensors, None if scale is None else scale.read())
        if scale is not None:
            self._late.append((self._step, "scale", self._largest, scale))
        self._guarded(self._write_late, self._is_watched)
        self._step += 1
        if self._is_open:
            self._begin()

    def end_step(self) -> None:
        """Ends the step where there is no optimizer whose step does."""
        if self._optimizer is not None or self._scaler is not None:
            raise RuntimeError("end_step: the optimizer's step, or the scaler's update, ends the steps of this watch")
        self._end()

    def _unhook(self) -> None:
        while self._handles:
            self._handles.pop().remove()
        self._stack.clear()
        show_attention(self._see_attention, False)  # the step ended within a pass

    def _guarded(self, write: Any, *arguments: Any) -> None:
        """A disk that is full ends the watching, not the training."""
        if not self._is_open:
            return
        try:
            write(*arguments)
        except OSError as error:
            self._is_open = False
            self._late.clear()
            warnings.warn(f"watch: {self.folder} cannot be written ({error}): it is no longer watched", stacklevel=4)
            self.close()

    # ---- what hooks see

    def _counts(self) -> bool:
        """Passes without gradients are evaluations, where there is an optimizer."""
        return self._stack[-1][1] if self._stack else self._optimizer is None or torch.is_grad_enabled()

    def _enter(self, name: str, module: Any, arguments: Any) -> None:
        if torch.compiler.is_compiling():
            return
        self._stack.append((name, self._counts()))
        if len(self._stack) == 1 and not _in_backward():
            show_attention(self._see_attention, True)

    def _leave(self, module: Any, arguments: Any, output: Any) -> None:
        if torch.compiler.is_compiling() or not self._stack:
            return
        self._stack.pop()
        if not self._stack:
            show_attention(self._see_attention, False)

    def _see(self, role: str, name: str, x: torch.Tensor) -> None:
        if not x.is_floating_point():
            return
        if why := self._tallies.why_not(x):
            self._left_out = True
            self._say(f"{role} {name} is left out: it is {why}; others for that reason without a word", role + why)
        else:
            self._tallies.add(role, name, x)
            self._roles.add(role)

    def _say(self, sentence: str, topic: str = "") -> None:
        """Once for a topic."""
        if topic not in self._said:
            self._said.add(topic)
            warnings.warn(f"watch: {shown(sentence)}", stacklevel=3)

    def _see_output(self, name: str, module: Any, arguments: Any, output: Any) -> None:
        if torch.compiler.is_compiling() or not self._counts():
            return
        for label, x in _tensors(name, output):
            if not _in_backward():
                self._see("activation", label, x)
            if x.requires_grad:
                self._handles.append(x.register_hook(functools.partial(self._see, "activation_gradient", label)))

    def _see_attention(self, query: torch.Tensor, key: torch.Tensor, scale: float | None) -> None:
        name, counts = self._stack[-1]
        if counts and self._is_chosen(name) and not self._tallies.why_not(query) and not self._tallies.why_not(key):
            for which, x in scores(query, key, scale):
                self._see("score", name + which, x)

    # ---- parameters, their gradients, and what the optimizer makes of them

    def _parameters(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        return ((name, p) for name, p in self._model.named_parameters() if self._is_chosen(name))

    def _see_parameters(self) -> None:
        if "parameters" not in self._read:
            self._read.add("parameters")
            for name, p in self._parameters():
                self._see("parameter", name, p)

    def _see_gradients(self) -> None:
        if "gradients" not in self._read:
            self._read.add("gradients")
            for name, p in self._parameters():
                if p.grad is not None:
                    self._see("gradient", name, p.grad)

    @torch._disable_dynamo  # a compiled step calls its hooks, too
    def _before_step(self, optimizer: Any, arguments: Any, words: Any) -> None:
        if not self._is_watched or not self._is_open:
            return
        self._see_parameters()
        if len(arguments) < 2 and words.get("closure") is None:  # else it computes the gradients
            self._see_gradients()
        held = {id(p) for group in optimizer.param_groups for p in group["params"]}
        for name, p in self._parameters():
            if id(p) in held and p.requires_grad and not self._tallies.why_not(p):
                wide = torch.float32 if p.dtype.itemsize < 4 else p.dtype
                self._before[name] = p.detach().to(wide, copy=True)

    @torch._disable_dynamo
    def _after_step(self, optimizer: Any, arguments: Any, words: Any) -> None:
        if not self._is_open:
            return
        for name, p in self._parameters() if self._before else ():
            if (before := self._before.pop(name, None)) is not None:
                self._see("update", name, before.neg_().add_(p.detach().to(before.dtype)))
        if self._scaler is None:
            self._end()

    # ---- the scaler: its methods of this object are wrapped, since its step leaves out that of the optimizer

    def _wrap(self, name: str, wrapper: Any) -> None:
        original = getattr(self._scaler, name)
        bound = functools.wraps(original)(functools.partial(wrapper, original))
        self._wrapped[name] = (bound, self._scaler.__dict__.get(name))
        setattr(self._scaler, name, bound)

    def _unscale(self, original: Any, optimizer: Any) -> Any:
        if self._is_open and self._is_watched and self._optimizer in (None, optimizer):
            self._see_gradients()
        return original(optimizer)

    def _update(self, original: Any, *arguments: Any, **words: Any) -> Any:
        if not self._is_open:
            return original(*arguments, **words)
        noted = None
        if self._scaler.is_enabled() and self._scaler._scale is not None:
            states = self._scaler._per_optimizer_states.values()
            noted = Later([self._scaler._scale, *(x for s in states for x in s["found_inf_per_device"].values())])
        result = original(*arguments, **words)
        self._end(noted)
        return result

    # ---- writing

    def _write_tensors(self, scale: list[float] | None) -> None:
        tallies = self._tallies.take()
        if self._has_modules and not self._left_out and "activation" not in self._roles:
            self._say("no output of a module was seen: compiled and scripted code calls no hooks")
        largest, is_all = 0.0, not (self._include or self._exclude or self._left_out)
        for key, tally in tallies.items():
            scaled = {"scale": number(scale[0])} if scale and key.role in SCALED else {}
            head = json.dumps({"step": self._step, **key._asdict(), **scaled})
            line = f"{head[:-1]}, {tally.json(self._signs, bool(self._names))[1:]}"
            self._folder.append("tensors.jsonl", line)
            if self._board is not None:
                self._board.tensor(json.loads(line))
            if key.role in SCALED:
                largest = max(largest, tally.amax)
        # Of all gradients, and only where none was beyond what its format holds.
        is_known = scale is not None and is_all and "gradient" in self._roles and not any(scale[1:]) and scale[0] > 0
        self._largest = largest / scale[0] if scale and is_known else None

    def _write_late(self, all_of_them: bool) -> None:
        """In order, what has come from the device."""
        while self._late and (all_of_them or self._late[0][3].is_there()):
            step, what, amax, later = self._late.pop(0)
            value, *found = later.read()
            line = {"step": step, what: number(value)}
            if what == "scale":
                line |= {"found_inf": any(found), "amax": number(amax)}
            self._folder.append(f"{what}.jsonl", json.dumps(line))
            if self._board is not None:
                self._board.scalar(what, value, step)

    def log(self, loss: Any, step: int | None = None) -> None:
        """Writes the loss of the step that is going on; the optimizer's step ends it, so log before, or give step."""
        if not self._is_open:
            return
        is_one = isinstance(loss, torch.Tensor) and loss.numel() == 1 and not loss.is_complex()
        if not is_one and (isinstance(loss, torch.Tensor) or not hasattr(loss, "__float__")):
            raise TypeError(f"loss: one number is needed, not {type(loss).__name__}")
        if step is not None and (isinstance(step, bool) or not isinstance(step, int) or step < 0):
            raise ValueError(f"step: {step!r}; right are integers from 0 on")
        later = Later([loss if is_one else float(loss)])
        self._late.append((self._step if step is None else step, "loss", None, later))
        self._guarded(self._write_late, False)

    def close(self) -> None:
        """Takes all hooks away and ends the folder. The step that was going on is left out."""
        self._unhook()
        self._before.clear()
        for handle in self._lasting:
            handle.remove()
        for name, (bound, earlier) in self._wrapped.items():
            if self._scaler.__dict__.get(name) is bound:
                delattr(self._scaler, name) if earlier is None else setattr(self._scaler, name, earlier)
        self._lasting, self._wrapped = [], {}
        self._guarded(self._write_late, True)
        self._is_open = False
        atexit.unregister(self._at_exit)
        self._folder.close()
        if self._board is not None:
            self._board.close()
            self._board = None

    def page(self, to: str | os.PathLike[str] = "page", show: bool = False) -> str:
        """Writes the page about what was watched so far (`narrow report run=...`); its path. show: in the browser, too."""
        command = ["report", f"run={self.folder}", "-o", os.fspath(to), "--fast", "--json", "--only", PAGE]
        status, out, said = _narrow.run_command(command)
        answers = json.loads(out)["experiments"] if out else []
        failures = [f"{a['name']}: {a['failure']}" for a in answers if a["failure"]]
        if (status != 0 and not failures) or len(failures) == len(answers):
            raise RuntimeError(f"page: narrow report said: {'; '.join(failures) or said.strip()}")
        for failure in failures:  # a run without gradients, or with nothing but NaN
            warnings.warn(f"watch: {failure}", stacklevel=2)
        path = os.path.abspath(os.path.join(to, "index.html"))
        if show:
            webbrowser.open("file://" + path)
        return path

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def watch(model: torch.nn.Module, optimizer: torch.optim.Optimizer | None = None,
          scaler: torch.amp.GradScaler | None = None, every: int | Iterable[int] = 50,
          formats: Sequence[str] = ("fp16", "e4m3", "e5m2"), to: str | os.PathLike[str] = "run/", *,
          include: str | Iterable[str] | None = None, exclude: str | Iterable[str] | None = None,
          tensorboard: Any = None, resume: bool = False, step: int | None = None, signs: bool = True) -> Watch:  # fmt: skip
    """Records what the tensors of a run look like and what formats would do to them, in a folder that narrow reads.

        w = narrow.torch.watch(model, optimizer, to="run/")
        for x, y in batches:
            loss = criterion(model(x), y)
            loss.backward()
            w.log(loss)
            optimizer.step()
            optimizer.zero_grad()

    Every so many steps, from step 0 on (every may also be the numbers of the steps), a line for each parameter, its
    gradient, its update by the optimizer, each output of a module without children, the gradient of that output, and
    the scores of attention. A step ends with optimizer.step(), with a scaler with scaler.update() (which is called after
    steps that are skipped, too), and with neither when w.end_step() is called. include, exclude: regular expressions,
    searched in names of modules and parameters. tensorboard: True, a folder, or a SummaryWriter. resume: goes on with a folder after its last whole
    line; step: the number of the first step, where it is not the next one. signs=False with formats=() writes binades
    of magnitudes alone, a third of the bytes; what a format makes of them is then known as far as binades tell.

    What is counted: outputs of a module that is called several times in a step (micro-batches) add up. Gradients are
    read when scaler.unscale_() or optimizer.step() begins; those that a scaler multiplied say by how much. FP64 is read
    as FP32; integers and complex numbers are left out. Passes without gradients are left out where there is an
    optimizer, and so is the second pass of a checkpoint. Scores of torch.nn.functional.scaled_dot_product_attention are
    computed again: in FP32, of one head, before the mask.

    What it costs: a step that is not watched calls two hooks of the optimizer, and copies the scale where there is a
    scaler; modules have no hooks then. A watched step keeps a copy of the parameters while the optimizer works. On a
    CUDA device nothing waits before the end of a watched step. Code of torch.compile runs no hooks: of a compiled model
    parameters, gradients, updates and the scale are seen, and it is compiled once more for the steps with hooks.
    Of several processes, one may watch.
    """
    return Watch(model, optimizer, scaler, every, formats, to, include, exclude, tensorboard, resume, step, signs)
