"""The packages that own the layouts read our samples and must agree with layouts.py; with NARROW=/path/of/narrow the
program's own models go through the same checks. SAMPLES=folder takes samples that samples.py has written.

Run: python packages_test.py [-v]
Works with: numpy 2.4.6, ml_dtypes 0.6.0, torch 2.13.0 (CPU), safetensors 0.8.0, compressed-tensors 0.20.0,
transformers 5.23.0, bitsandbytes 0.50.2, gguf 0.19.0, nvidia-modelopt 0.47.0. A package that is missing is skipped.
"""
import importlib
import json
import os
import subprocess
import tempfile
import unittest
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np

import layouts
import samples

warnings.filterwarnings("ignore")
np.seterr(invalid="ignore")  # signalling NaNs become quiet
U = 2.0**-24  # unit roundoff of float32: one rounding moves a value by at most U of itself
NARROW = os.environ.get("NARROW")
FOLDER = None


def setUpModule():
    global FOLDER, KEEP_ALIVE
    if "SAMPLES" in os.environ:
        FOLDER = Path(os.environ["SAMPLES"])
    else:
        KEEP_ALIVE = tempfile.TemporaryDirectory()
        FOLDER = Path(KEEP_ALIVE.name)
        samples.main(FOLDER)


def package(name):
    try:
        return importlib.import_module(name)
    except Exception as error:  # a package may also refuse the machine
        raise unittest.SkipTest(f"{name} does not load here: {error}")


def same(test, got, want, what, signed_zero=True):
    """Bit for bit. signed_zero=False: the package's E2M1 table has +0 for code 8."""
    got, want = np.asarray(got, np.float32), np.asarray(want, np.float32)
    test.assertEqual(got.shape, want.shape, what)
    if not signed_zero:
        got, want = got + np.float32(0), want + np.float32(0)
    wrong = np.flatnonzero(got.view(np.uint32).ravel() != want.view(np.uint32).ravel())
    if wrong.size:
        i = wrong[0]
        pair = f"{got.ravel()[i]!r}, want {want.ravel()[i]!r}"
        test.fail(f"{what}: {wrong.size} of {got.size} differ, first [{i}] {pair}")


def near(test, got, want, bound, what):
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    test.assertEqual(got.shape, want.shape, what)
    excess = np.abs(got - want) - bound
    test.assertTrue((excess <= 0).all(), f"{what}: off by {excess.max()} more than allowed")


def torch_tensors(folder):
    load = package("safetensors.torch").load_file
    return {n: t for f in sorted(Path(folder).glob("*.safetensors")) for n, t in load(f).items()}


def config_of(folder):
    return json.loads((Path(folder) / "config.json").read_text())


# ---- one check per package, for samples and for what the program writes ------------------------------------------
def check_safetensors(test, folder):
    open_ = package("safetensors").safe_open
    for path in Path(folder).glob("*.safetensors"):
        ours = layouts.load_safetensors(path)
        with open_(path, "pt") as file:
            test.assertEqual(set(file.keys()), set(ours))
            for name, t in ours.items():
                part = file.get_slice(name)
                if t.dtype != "F4":  # layouts.py leaves its bytes packed
                    test.assertEqual((part.get_dtype(), tuple(part.get_shape())), (t.dtype, t.array.shape), name)
    torch = package("torch")
    for name, t in torch_tensors(folder).items():
        want = layouts.Model(folder).tensors[name] if name.endswith("norm.weight") else None
        if want is not None:
            same(test, t.to(torch.float32), layouts.number(want), name)


def check_compressed_tensors(test, folder):
    torch, base = package("torch"), package("compressed_tensors.compressors.base").BaseCompressor
    quantization = package("compressed_tensors.quantization")
    config = config_of(folder)["quantization_config"]
    parsed = quantization.QuantizationConfig.model_validate(config)
    want, tensors = layouts.read(folder), torch_tensors(folder)
    (scheme,) = parsed.config_groups.values()
    compressor = base.get_value_from_registry(config["format"])
    modules = [n.removesuffix(".weight_scale") for n in tensors if n.endswith(".weight_scale")]
    test.assertTrue(modules)
    for module in modules:
        own = {n.removeprefix(module + "."): t for n, t in tensors.items()
               if n.startswith(module + ".weight")}
        value = want[module + ".weight"]
        got = compressor.decompress(own, scheme)["weight"]
        if config["format"].startswith("nvfp4"):
            # The package divides s/G in float32, then multiplies: two roundings to our one. Its last cast, to BF16,
            # adds one of 2^-8; without that cast (dequantize into float32) the three of float32 remain.
            near(test, got.to(torch.float64), value, (2.0**-8 + 3 * U) * np.abs(value), module)
            helpers, forward = package("compressed_tensors.compressors.nvfp4.helpers"), package(
                "compressed_tensors.quantization.lifecycle.forward")
            rows, columns = own["weight_packed"].shape
            exact = helpers.unpack_fp4_from_uint8(own["weight_packed"], rows, columns * 2, dtype=torch.float32)
            got = forward.dequantize(exact, own["weight_scale"].to(torch.float32), args=scheme.weights,
                                     dtype=torch.float32, global_scale=own["weight_global_scale"])
            near(test, got, value, 3 * U * np.abs(value), module)
        elif got.dtype == torch.bfloat16:
            # Codes and BF16 scales have at most 8 + 8 bits: one exact product, rounded once to BF16.
            same(test, got.to(torch.float32), layouts.number(layouts.store(value, "BF16")), module)
        else:
            same(test, got, value, module)


def check_fp8(test, folder):
    torch = package("torch")
    dequantize = package("transformers.integrations.finegrained_fp8").Fp8Dequantize(None)._dequantize_one
    config, tensors, want = config_of(folder)["quantization_config"], torch_tensors(folder), layouts.read(folder)
    block, done = config["weight_block_size"], 0
    for name, t in tensors.items():
        scale = tensors.get(name + "_scale_inv", tensors.get(name + "_scale"))
        if t.dtype != torch.float8_e4m3fn:
            continue
        # Transformers takes the block from the shapes, which is right only where the block divides both sides.
        if block and (t.shape[0] % block[0] or t.shape[1] % block[1]):
            continue
        same(test, dequantize(t, scale, torch.float32), want[name], name)
        done += 1
    return done


def check_mxfp4(test, folder):
    torch, convert = package("torch"), package("transformers.integrations.mxfp4").convert_moe_packed_tensors
    tensors, want = torch_tensors(folder), layouts.read(folder)
    names = [n.removesuffix("_blocks") for n in tensors if n.endswith("_blocks")]
    test.assertTrue(names)
    for name in names:
        blocks, scales = tensors[name + "_blocks"], tensors[name + "_scales"]
        flat = blocks.dim() == 3  # a single matrix: as one expert
        got = convert(blocks[None] if flat else blocks, scales[None] if flat else scales, dtype=torch.float32)
        got = got.transpose(1, 2)  # the package returns [E, K, N]
        same(test, (got[0] if flat else got).contiguous(), want[name], name)


def check_modelopt(test, folder):
    torch, q = package("torch"), package("modelopt.torch.quantization.qtensor")
    config, tensors, want = config_of(folder)["quantization_config"], torch_tensors(folder), layouts.read(folder)
    for name in [n.removesuffix("_scale") for n in tensors if n.endswith(".weight_scale")]:
        t, scale, value = tensors[name], tensors[name + "_scale"], want[name]
        shape = torch.Size(value.shape)
        if t.dtype == torch.uint8:
            got = q.NVFP4QTensor(shape, torch.float32, t).dequantize(
                torch.float32, scale=scale, double_scale=tensors[name + "_scale_2"], block_sizes={-1: 16})
            # s * s2 is rounded before it meets the code: two roundings to our one.
            near(test, got, value, 3 * U * np.abs(value), name)
        elif scale.dtype == torch.uint8:
            got = q.MXFP8QTensor(shape, torch.float32, t).dequantize(torch.float32, scale=scale)
            same(test, got, value, name)
        else:
            scale = scale[:, 0, :, 0] if scale.dim() == 4 else scale.reshape(-1, 1) if scale.dim() else scale
            blocks = {-1: 128, -2: 128} if config["quant_algo"].upper() == "FP8_PB_WO" else None
            got = q.FP8QTensor(shape, torch.float32, t).dequantize(torch.float32, scale=scale, block_sizes=blocks)
            same(test, got, value, name)
    convert = package("modelopt.torch.export.convert_hf_config").convert_hf_quant_config_format
    test.assertEqual(convert(json.loads((Path(folder) / "hf_quant_config.json").read_text())), config)


CHECKS = {"deepseek": check_fp8, "compressed-tensors": check_compressed_tensors, "modelopt": check_modelopt,
          "mxfp4": check_mxfp4}


# ---- the samples -------------------------------------------------------------------------------------------------
class Formats(unittest.TestCase):
    def test_tables_equal_those_of_ml_dtypes(self):
        ml = package("ml_dtypes")
        for name, table in (("float8_e4m3fn", layouts.E4M3), ("float4_e2m1fn", layouts.E2M1),
                            ("float8_e8m0fnu", layouts.E8M0)):
            theirs = np.arange(len(table), dtype=np.uint8).view(getattr(ml, name)).astype(np.float64)
            self.assertTrue(np.array_equal(table, theirs, equal_nan=True), name)
            self.assertTrue((np.signbit(table) == np.signbit(theirs))[~np.isnan(table)].all(), name)
        bits = np.arange(1 << 16, dtype=np.uint16)
        theirs = bits.view(ml.bfloat16).astype(np.float64)
        self.assertTrue(np.array_equal(layouts.number(layouts.Tensor("BF16", bits)), theirs, equal_nan=True))

    def test_nearest_codes_equal_those_of_ml_dtypes(self):
        ml, x = package("ml_dtypes"), np.random.default_rng(1).standard_normal(10000) * 60
        x = np.concatenate([x, (layouts.E4M3[:126] + layouts.E4M3[1:127]) / 2])  # every tie
        self.assertTrue((layouts.nearest(layouts.E4M3, x) == x.astype(ml.float8_e4m3fn).view(np.uint8)).all())
        ties = np.float64([.25, .75, 1.25, 1.75, 2.5, 3.5, 5, -.25, -5])
        self.assertTrue((layouts.nearest(layouts.E2M1, ties) == ties.astype(ml.float4_e2m1fn).view(np.uint8)).all())
        x = x.astype(np.float32)
        self.assertTrue((layouts.store(x, "BF16").array == x.astype(ml.bfloat16).view(np.uint16)).all())

    def test_examples_of_the_documents(self):
        word = layouts.pack_words(np.uint8([[0, 15, 8, 9, 7, 10, 6, 11]]), 4, 1)
        self.assertEqual(word.view(np.uint32)[0, 0], 0xB6A798F0)
        self.assertEqual(layouts.nibbles(np.uint8([7, 0xD, 3, 1])).tolist(), [0xD7, 0x13])
        self.assertEqual([layouts.nearest(layouts.E4M3, np.float64([v]) * 512)[0] for v in (.875, -.4375, .1, 0)],
                         [0x7E, 0xF6, 0x65, 0])


class Samples(unittest.TestCase):
    def each(self, prefix, check):
        for name in samples.SAMPLES:
            if name.startswith(prefix):
                with self.subTest(name):
                    check(self, FOLDER / name)

    def test_safetensors_sees_the_same_names_types_and_shapes(self):
        self.each(tuple(n for n in samples.SAMPLES if n != "gguf"), check_safetensors)

    def test_compressed_tensors_decompresses_to_the_same_values(self):
        self.each("ct-", check_compressed_tensors)

    def test_transformers_fp8_dequantises_to_the_same_values(self):
        self.each(("deepseek", "fp8-"), check_fp8)
        self.assertEqual(check_fp8(self, FOLDER / "deepseek-even"), 14)

    def test_transformers_mxfp4_dequantises_to_the_same_values(self):
        self.each("mxfp4", check_mxfp4)

    def test_modelopt_dequantises_to_the_same_values(self):
        self.each("modelopt-", check_modelopt)

    def test_transformers_accepts_every_configuration(self):
        auto = package("transformers.quantizers.auto").AutoQuantizationConfig
        for name in samples.SAMPLES:
            config = {} if name == "gguf" else config_of(FOLDER / name).get("quantization_config", {})
            if config and config["quant_method"] != "modelopt":  # Transformers does not know modelopt
                with self.subTest(name):
                    if config["quant_method"] == "compressed-tensors":
                        package("compressed_tensors")  # Transformers asks for it
                    auto.from_dict(config)

    def test_bitsandbytes_dequantises_to_the_same_values(self):
        torch, bnb = package("torch"), package("bitsandbytes")
        dequantize = package("transformers.integrations.bitsandbytes").dequantize_bnb_weight
        for kind, table in (("nf4", layouts.NF4), ("fp4", layouts.BNB_FP4)):
            same(self, bnb.functional.get_4bit_type(kind, device="cpu"), table, kind)
        for name in ("bnb-nf4", "bnb-nf4-double", "bnb-fp4", "bnb-fp4-double"):
            folder = FOLDER / name
            tensors, want, coded = torch_tensors(folder), layouts.read(folder), layouts.codes(folder)
            for weight, c in coded.items():
                stats = {n.removeprefix(weight + "."): t for n, t in tensors.items() if n.startswith(weight + ".")}
                own = bnb.nn.Params4bit.from_prequantized(tensors[weight], stats, device="cpu")
                with self.subTest(f"{name} {weight}"):
                    near(self, dequantize(own), want[weight], np.zeros(want[weight].shape), weight)  # but for the sign of 0
        tensors, want = torch_tensors(FOLDER / "bnb-int8"), layouts.read(FOLDER / "bnb-int8")
        for weight in [n for n, t in tensors.items() if t.dtype == torch.int8]:
            # times SCB, then times the float32 nearest to 1/127: three roundings to our one.
            scales = tensors[weight.removesuffix("weight") + "SCB"]
            got = bnb.functional.int8_vectorwise_dequant(tensors[weight], scales)
            near(self, got, want[weight], 4 * U * np.abs(want[weight]), weight)

    def test_gguf_dequantises_to_the_same_values(self):
        gguf = package("gguf")
        want, seen = layouts.read(FOLDER / "gguf"), set()
        for t in gguf.GGUFReader(FOLDER / "gguf" / "model.gguf").tensors:
            seen.add(t.tensor_type.name)
            got = gguf.quants.dequantize(t.data, t.tensor_type)
            same(self, got.reshape(want[t.name].shape), want[t.name], t.name, signed_zero=False)
        self.assertEqual(seen, {*layouts.GGUF_BLOCKS, *layouts.GGUF_PLAIN})


# ---- the program -------------------------------------------------------------------------------------------------
CASES = [("deepseek", "fp8_128x128"), *(("compressed-tensors", f) for f in (
    "fp8_tensor", "fp8_row", "fp8_128x128", "nvfp4", "mxfp4", "mxfp8", "int8_row", "int4_1x128")),
    ("modelopt", "fp8_tensor"), ("modelopt", "nvfp4"), ("modelopt", "mxfp8"), ("mxfp4", "mxfp4"), ("narrow", "nvfp4")]
KEPT = ("embed_tokens", "norm", "bias", "lm_head", "router")
# weights arguments, formats that compressed-tensors may give them (with or without quantised activations)
CT = {"fp8_tensor": ({"num_bits": 8, "type": "float", "strategy": "tensor"}, ("float-quantized", "naive-quantized")),
      "fp8_row": ({"num_bits": 8, "type": "float", "strategy": "channel"}, ("float-quantized", "naive-quantized")),
      "fp8_128x128": ({"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]},
                      ("float-quantized", "naive-quantized")),
      "nvfp4": ({"num_bits": 4, "type": "float", "group_size": 16, "strategy": "tensor_group"},
                ("nvfp4-pack-quantized",)),
      "mxfp4": ({"num_bits": 4, "type": "float", "group_size": 32, "strategy": "group"}, ("mxfp4-pack-quantized",)),
      "mxfp8": ({"num_bits": 8, "type": "float", "group_size": 32, "strategy": "group"}, ("mxfp8-quantized",)),
      "int8_row": ({"num_bits": 8, "type": "int", "strategy": "channel"}, ("int-quantized", "pack-quantized")),
      "int4_1x128": ({"num_bits": 4, "type": "int", "group_size": 128, "strategy": "group"}, ("pack-quantized",))}


def narrow(*words):
    done = subprocess.run([NARROW, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"narrow {' '.join(map(str, words))}: {done.stderr or done.stdout}")


@unittest.skipUnless(NARROW, "NARROW is not set")
class Narrow(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.out = Path(self.place.name)

    def tearDown(self):
        self.place.cleanup()

    def check_config(self, layout, kind, folder):
        whole, source = config_of(folder), config_of(FOLDER / "plain")
        config = whole.pop("quantization_config", None)
        self.assertEqual(whole, source, "the rest of config.json changed")
        if layout == "narrow":
            return
        self.assertEqual(config["quant_method"], "fp8" if layout == "deepseek" else layout)
        if layout == "deepseek":
            self.assertEqual((config["fmt"], config["activation_scheme"], config["weight_block_size"]),
                             ("e4m3", "dynamic", [128, 128]))
        elif layout == "compressed-tensors":
            arguments, formats = CT[kind]
            (group,) = config["config_groups"].values()
            self.assertIn(config["format"], formats)
            self.assertEqual(group.get("format", config["format"]), config["format"])
            self.assertEqual(config["quantization_status"], "compressed")
            self.assertEqual({k: group["weights"].get(k) for k in arguments}, arguments)
            self.assertTrue(group["weights"].get("symmetric", True))
            self.assertGreaterEqual(tuple(map(int, config["version"].split(".")[:2])), (0, 14))
        elif layout == "modelopt":
            algorithms = {"fp8_tensor": ("FP8",), "nvfp4": ("NVFP4", "W4A16_NVFP4"), "mxfp8": ("MXFP8",)}[kind]
            other = json.loads((folder / "hf_quant_config.json").read_text())["quantization"]
            self.assertIn(config["quant_algo"], algorithms)
            self.assertEqual(config["quant_algo"], other["quant_algo"])
            self.assertEqual(config["ignore"], other["exclude_modules"])
        coded, plain = layouts.parts(folder)
        for name in plain:  # what a loader would take for a quantised layer must be in the skip list
            module = name.removesuffix(".weight")
            if name.endswith(("proj.weight", "lm_head.weight")):
                self.assertTrue(layouts.ignored({"quantization_config": config}, module), f"{module} is not skipped")
        for name in coded:
            self.assertFalse(layouts.ignored({"quantization_config": config}, name.removesuffix(".weight")), name)

    def check_files(self, layout, folder):
        source, made = layouts.Model(FOLDER / "plain"), layouts.Model(folder)
        index = json.loads((folder / "model.safetensors.index.json").read_text())
        self.assertEqual(index["weight_map"], made.index()["weight_map"])
        self.assertEqual(index["metadata"]["total_size"], made.index()["metadata"]["total_size"])
        for file, data in source.other.items():
            self.assertTrue(made.other.get(file) == data, file)
        for name, t in source.tensors.items():
            if any(word in name for word in KEPT):
                kept = made.tensors[name]
                self.assertEqual(kept.dtype, t.dtype, name)
                self.assertTrue(kept.array.tobytes() == t.array.tobytes(), name)  # assertEqual would diff megabytes

    def check_error(self, kind, folder):
        """|x - value| is at most half the distance of the two codes around x, times the scale, or the part beyond the
        largest code, which the scale rule bounds: rounding of the scale (2^-8 BF16, 2^-4 E4M3), the power of two
        below (MX: up to 2^(emax+1)), or (integers) half a step."""
        x_of, coded, value_of = layouts.read(FOLDER / "plain"), layouts.codes(folder), layouts.read(folder)
        linear = {n for n in x_of if "proj.weight" in n}
        self.assertEqual({n for n in coded}, linear, "not every linear layer is quantised")
        for name, c in coded.items():
            x, value = x_of[name].astype(np.float64), value_of[name].astype(np.float64)
            step = layouts.spread(c.scales, c.block, x.shape) * float(c.factor)
            positive = np.unique(np.abs(c.table[~np.isnan(c.table)]))
            ratio, top = np.abs(x) / step, positive[-1] if "int" not in kind else positive[-2]
            above = np.clip(np.searchsorted(positive, ratio), 1, len(positive) - 1)
            half = (positive[above] - positive[above - 1]) / 2
            beyond = np.maximum(ratio - top, 0)
            limit = {"fp8": top * (1 + 2.0**-8), "nvf": top * (1 + 2.0**-4), "int": (top + .5) * (1 + 2.0**-8)}.get(
                kind[:3], 2.0 ** (np.floor(np.log2(top)) + 1)) * (1 + 2.0**-20)
            near(self, value, x, step * (np.maximum(half, beyond) + ratio * 2.0**-22), name)
            self.assertLessEqual(ratio.max(), limit, f"{name}: the scale is too small")
            block = tuple(min(b, n) for b, n in zip(c.block, x.shape))
            most = samples.largest(ratio, block)
            normal = (most > 0) & ~((kind == "nvfp4") & (np.atleast_2d(c.scales) < 2.0**-6))
            self.assertGreaterEqual(most[normal].min(), .45 * top, f"{name}: the scale is too large")

    def check_back(self, layout, kind, folder, want):
        back, again = self.out / "back", self.out / "again"
        narrow("dequantize", folder, back)
        model = layouts.Model(back)
        self.assertNotIn("quantization_config", model.config)
        self.assertEqual(set(model.tensors), set(want))
        for name, t in model.tensors.items():
            self.assertIn(t.dtype, ("F32", "BF16", "F16"))
            same(self, layouts.number(t), layouts.number(layouts.store(want[name], t.dtype)), name)
        narrow("quantize", back, again, "--layout", layout, "--to", kind)
        if layout == "narrow":
            return
        first, second, twice = layouts.codes(folder), layouts.codes(again), layouts.read(again)
        self.assertEqual(set(first), set(second))
        for name, c in first.items():
            # The rules of compressed-tensors and ModelOpt make 0 of -0: a code that is worth nothing may lose its sign.
            zero = np.asarray(c.table)[c.codes] == 0
            change = np.abs(c.codes.astype(int) - np.where(zero, c.codes, second[name].codes)).max()
            self.assertTrue((np.asarray(c.table)[second[name].codes][zero] == 0).all(), name)
            if kind == "mxfp8":
                # The largest value may have been rounded across the power of two at which the rule changes the
                # exponent. All codes of the block then move by one exponent: only subnormal ones can lose half a unit.
                step = layouts.spread(np.maximum(c.scales, second[name].scales), c.block, c.codes.shape)
                near(self, twice[name], want[name], step * 2.0**-10, name)
            else:
                # Integer scales are amax over half the range plus a half, so the largest code, and its scale, may move.
                self.assertLessEqual(change, 1 if kind.startswith("int") else 0, name)

    def test_models_that_the_program_quantises(self):
        for layout, kind in CASES:
            with self.subTest(f"{layout} {kind}"):
                folder = self.out / "made"
                narrow("quantize", FOLDER / "plain", folder, "--layout", layout, "--to", kind)
                try:
                    self.check_files(layout, folder)
                    self.check_config(layout, kind, folder)
                    check_safetensors(self, folder)
                    if layout == "narrow":
                        self.check_own(folder)
                        continue
                    self.check_error(kind, folder)
                    self.check_back(layout, kind, folder, layouts.read(folder))
                    try:
                        CHECKS[layout](self, folder)
                    except unittest.SkipTest as missing:
                        print(missing)
                finally:
                    subprocess.run(["rm", "-rf", *(str(self.out / p) for p in ("made", "back", "again"))])

    def check_own(self, folder):
        """The program's own layout is read through the program: each value within half the widest NVFP4 step (1 at
        the top, of 6) of its block of 16, the scale one E4M3 rounding (1/16) off; and a second pass changes nothing."""
        back, again, twice = self.out / "back", self.out / "again", self.out / "twice"
        narrow("dequantize", folder, back)
        narrow("quantize", back, again, "--layout", "narrow", "--to", "nvfp4")
        narrow("dequantize", again, twice)
        x_of, value_of, value_again = (layouts.read(f) for f in (FOLDER / "plain", back, twice))
        for name, x in x_of.items():
            if "proj.weight" in name:
                bound = samples.largest(x.astype(np.float64), (1, 16)) / 6 * (1 + 1 / 16) * (1 + 2.0**-7)
                near(self, value_of[name], x, layouts.spread(bound, (1, 16), x.shape), name)
            same(self, value_again[name], value_of[name], name)

    def test_values_that_the_program_reads(self):
        for name in samples.SAMPLES:
            with self.subTest(name):
                path, back = FOLDER / name, self.out / f"{name}.back"
                if name == "gguf":
                    path, back = path / "model.gguf", self.out / "gguf.safetensors"
                narrow("dequantize", path, back)
                got = layouts.Model(back).tensors if back.is_dir() else layouts.load_safetensors(back)
                want = layouts.read(FOLDER / name)
                self.assertEqual(set(got), set(want))
                for n, t in got.items():
                    same(self, layouts.number(t), layouts.number(layouts.store(want[n], t.dtype)), n)


if __name__ == "__main__":
    unittest.main()
