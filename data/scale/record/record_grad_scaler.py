# Question: which scale does torch.amp.GradScaler on CUDA have at every step, and what does unscaling make of gradients
# when the scale has collapsed? Run: python3 record_grad_scaler.py > ../grad_scaler.tsv
# Each run is real: a scaled loss, a backward pass, step() and update(); Infs come from FP16 overflow or are put into the
# gradient by hand at the steps that the pseudo-random rule below names.
import struct
import torch


def bits(x):  # of a float32
    return "%08X" % struct.unpack("<I", struct.pack("<f", x))[0]


def mix(z):  # the splitmix64 step
    m = (1 << 64) - 1
    z = (z + 0x9E3779B97F4A7C15) & m
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & m
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & m
    return z ^ (z >> 31)


def run(name, steps, inject, fp16=0.0, **arguments):
    scaler = torch.amp.GradScaler("cuda", **arguments)
    p = torch.nn.Parameter(torch.ones(4, device="cuda"))
    optimizer = torch.optim.SGD([p], lr=0.0)
    print("run", name, float(arguments.get("init_scale", 65536.0)).hex(), float(arguments.get("growth_factor", 2.0)).hex(),
          float(arguments.get("backoff_factor", 0.5)).hex(), arguments.get("growth_interval", 2000), sep="\t")
    for step in range(steps):
        optimizer.zero_grad()
        with torch.no_grad():
            p.fill_(1.0)
        loss = (p.half() * fp16).float().sum() if fp16 else p.sum()
        scaled = scaler.scale(loss)
        before = scaler.get_scale()
        scaled.backward()
        if not fp16:
            p.grad.fill_(1.0)  # what comes back does not depend on the scale: Infs only where they are put
        if inject(step):
            p.grad[step % 4] = (float("inf"), float("-inf"), float("nan"))[step % 3]
        scaler.unscale_(optimizer)
        found = sum(v.item() for v in scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values())
        scaler.step(optimizer)
        scaler.update()
        print("step", step, bits(before), int(found), scaler._growth_tracker.item(), sep="\t")


def unscale(scale, gradients):
    scaler = torch.amp.GradScaler("cuda", init_scale=scale)
    p = torch.nn.Parameter(torch.zeros(1, device="cuda"))
    optimizer = torch.optim.SGD([p], lr=0.0)
    for g in gradients:
        scaler.scale(p.sum())
        p.grad = torch.tensor([g], device="cuda")
        scaler.unscale_(optimizer)
        found = sum(v.item() for v in scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values())
        print("unscale", bits(scaler.get_scale()), bits(g), bits(p.grad.item()), int(found), sep="\t")
        scaler.step(optimizer)
        scaler.update(torch.tensor(scale, device="cuda"))


def power_of_two_floor():  # exp2(floor(log2 x)) just below powers of two: how often is it the power itself?
    k = torch.arange(-126, 128, device="cuda")
    x = torch.ldexp(torch.ones_like(k, dtype=torch.float32), k)
    below = torch.nextafter(x, torch.zeros_like(x))
    wrong = (torch.exp2(torch.floor(torch.log2(below))) > below).sum().item()
    print(f"# exp2(floor(log2 x)) of the float below each of {k.numel()} powers of two is above it for {wrong}")


def main():
    print("# What torch.amp.GradScaler does on CUDA, step by step; see README.md. Written by record/record_grad_scaler.py.")
    print(f"# torch {torch.__version__}, CUDA {torch.version.cuda}, {torch.cuda.get_device_name()}")
    print("# run: name, init_scale, growth_factor, backoff_factor, growth_interval (hex floats)")
    print("# step: step, bits of the scale before it, found_inf, growth_tracker after it")
    print("# unscale: bits of the scale, of the gradient, of the unscaled gradient, found_inf")
    power_of_two_floor()
    never, always = (lambda s: False), (lambda s: True)
    run("interval5", 200, lambda s: mix(s) % 9 == 0, growth_interval=5)
    run("interval1", 40, lambda s: mix(s + 1000) % 3 == 0, growth_interval=1)
    run("odd_factors", 300, lambda s: mix(s + 2000) % 7 == 0, init_scale=1000.0, growth_factor=1.7, backoff_factor=0.3,
        growth_interval=3)
    run("init_too_high", 120, never, fp16=3.0, init_scale=2.0**40, growth_interval=20)
    run("init_too_low", 60, never, fp16=3.0, init_scale=2.0**-10, growth_interval=2)
    run("collapse", 180, always)
    run("collapse_then_good", 260, lambda s: s < 170, growth_interval=10)
    run("to_the_top", 12, never, init_scale=2.0**120, growth_interval=1)
    run("to_the_top_odd", 12, never, init_scale=2.0**125, growth_factor=3.0, growth_interval=1)
    run("inexact_init", 30, lambda s: s % 5 == 4, init_scale=0.1, growth_interval=2)
    run("defaults", 2100, lambda s: s == 50)
    gradients = [0.0, -0.0, 1.0, 2.0**-149, 3.0e38, float("inf"), float("nan")]
    for exponent in (0, 16, 127, -126, -127, -128, -149):
        unscale(2.0**exponent, gradients)
    unscale(3.0, gradients)
    for name in ("torchao", "transformer_engine", "deepspeed", "apex", "fairseq", "megatron"):
        try:
            print(f"# {name} {__import__(name).__version__} is installed")
        except Exception:
            print(f"# {name} is not installed")


main()
