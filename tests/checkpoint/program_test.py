"""The program against checkpoints: program_test.py NARROW. Needs numpy alone; packages_test.py asks the packages."""
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import broken
import layouts
import samples

PROGRAM = sys.argv[1]
LARGEST_MEMORY = 700  # MiB, for any size of model: 256 of mapped files, buffers of pieces, the program


def narrow(*words, status=0):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True)
    if done.returncode != status:
        raise AssertionError(f"narrow {' '.join(map(str, words))}: status {done.returncode}\n{done.stderr or done.stdout}")
    return done.stdout


def bits(x):
    return np.ascontiguousarray(x, np.float32).view(np.uint32)


class Checkpoints(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.out = Path(cls.place.name)
        cls.samples = cls.out / "samples"
        samples.main(cls.samples)

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def test_values_of_every_layout_are_the_exact_product_rounded_once(self):
        compared = 0
        for name in samples.SAMPLES:
            with self.subTest(name):
                source = self.samples / name / ("model.gguf" if name == "gguf" else "")
                back = self.out / (f"{name}.safetensors" if name == "gguf" else f"{name}-back")
                narrow("dequantize", source, back)
                files = [back] if name == "gguf" else sorted(back.glob("*.safetensors"))
                got = {n: layouts.number(t) for f in files for n, t in layouts.load_safetensors(f).items()}
                want = layouts.read(source)
                self.assertEqual(set(got), set(want))
                for tensor, x in want.items():
                    self.assertEqual(got[tensor].shape, x.shape, tensor)
                    self.assertTrue((bits(got[tensor]) == bits(x)).all(), tensor)
                    compared += x.size
        print(f"compared {compared} values")

    def test_every_command_sees_one_tensor_with_its_values(self):
        for name in ("deepseek", "ct-nvfp4", "bnb-nf4-double", "ct-int4-group-asym", "mxfp4"):
            with self.subTest(name):
                folder, want = self.samples / name, layouts.read(self.samples / name)
                rows = {r["tensor"]: r for r in json.loads(narrow("stats", folder, "--formats", "fp16", "--json"))}
                told = {t["name"]: t for t in json.loads(narrow("inspect", folder, "--json"))["tensors"]}
                for tensor in layouts.codes(folder):
                    self.assertEqual(np.float32(rows[tensor]["amax"]), np.abs(want[tensor]).max(), tensor)
                    self.assertEqual(tuple(told[tensor]["shape"]), want[tensor].shape)
                    self.assertLess(told[tensor]["bits_per_weight"], 9)

    def test_codes_are_those_of_the_rule_in_every_layout(self):
        """What quantize writes for another tool, against narrow's own layout of the same format and rule."""
        cases = [("deepseek", "fp8_128x128:te_block_fp32"), ("compressed-tensors", "nvfp4:ct_nvfp4"), ("compressed-tensors", "mxfp4:ct_mx"),
                 ("compressed-tensors", "mxfp8:ct_mx"), ("compressed-tensors", "fp8_row:ct_fp8"), ("compressed-tensors", "int8_row:ct_int"),
                 ("compressed-tensors", "int4_1x32:ct_int"), ("compressed-tensors", "int4_1x128:ct_int"), ("modelopt", "nvfp4:modelopt_nvfp4"),
                 ("modelopt", "fp8_tensor:ct_fp8"), ("modelopt", "fp8_128x128:ct_fp8"), ("modelopt", "mxfp8:torchao_rceil"), ("mxfp4", "mxfp4:ocp_floor")]
        for layout, to in cases:
            with self.subTest(f"{layout} {to}"):
                made, own = self.out / f"made-{layout}-{to}", self.out / f"own-{layout}-{to}"
                narrow("quantize", self.samples / "plain", made, "--layout", layout, "--to", to)
                narrow("quantize", self.samples / "plain", own, "--layout", "narrow", "--to", to)
                stored = {n: t for f in own.glob("*.safetensors") for n, t in layouts.load_safetensors(f).items()}
                coded = layouts.codes(made)
                self.assertGreater(len(coded), 10)
                for name, c in coded.items():
                    raw = np.ascontiguousarray(stored[name].array).view(np.uint8).ravel()
                    if stored[name].dtype == "F4":
                        raw = np.stack([raw & 15, raw >> 4], -1).ravel()
                    values = c.codes.astype(np.uint8).ravel()
                    if to.startswith("int4"):  # stored as u = q + 8 there, two's complement here
                        raw = (raw ^ 8) & 15
                    self.assertTrue((values == raw).all(), name)
                self.assertIn("nothing found", narrow("lint", made))

    def test_lint_finds_what_is_planted_and_nothing_in_clean_models(self):
        folder = self.out / "broken"
        broken.main(folder)
        expected = json.loads((folder / "expected.json").read_text())
        self.assertGreaterEqual(len({rule for rule in expected.values() if rule}), 26)
        rules = {r["rule"]: r for r in json.loads(narrow("lint", "--rules", "--json"))}
        for model, rule in expected.items():
            with self.subTest(model):
                done = subprocess.run([PROGRAM, "lint", folder / model, "--json"], capture_output=True, text=True)
                found = [f["rule"] for f in json.loads(done.stdout)["findings"]]
                if rule is None:
                    self.assertEqual((found, done.returncode), ([], 0))
                    continue
                self.assertIn(rule, found)
                self.assertEqual(done.returncode, int(any(rules[r]["exit"] for r in found)))
                silent = json.loads(subprocess.run([PROGRAM, "lint", folder / model, "--json", "--ignore", rule], capture_output=True, text=True).stdout)
                self.assertNotIn(rule, [f["rule"] for f in silent["findings"]])
                shown = subprocess.run([PROGRAM, "lint", folder / model, "--format", "github"], capture_output=True, text=True).stdout
                self.assertRegex(shown, rf"::(error|warning|notice) file=.*,title=narrow lint {rule}::")

    def test_another_rule_of_a_layout_decodes_as_narrow_itself_does(self):
        for layout, rule in (("compressed-tensors", "te_nvfp4"), ("compressed-tensors", "modelopt_nvfp4"), ("modelopt", "ct_nvfp4")):
            made, own = self.out / f"rule-{layout}-{rule}", self.out / f"rule-own-{layout}-{rule}"
            narrow("quantize", self.samples / "plain", made, "--layout", layout, "--to", "nvfp4", "--rule", rule)
            narrow("quantize", self.samples / "plain", own, "--layout", "narrow", "--to", "nvfp4", "--rule", rule)
            narrow("dequantize", own, self.out / f"{own.name}-back")
            back = {n: layouts.number(t) for f in (self.out / f"{own.name}-back").glob("*.safetensors") for n, t in layouts.load_safetensors(f).items()}
            for name, x in layouts.read(made).items():
                np.testing.assert_allclose(x, back[name], rtol=4 * 2.0**-24, atol=0)  # a factor and its inverse, each rounded

    def test_what_is_kept_of_a_quantised_model_becomes_plain(self):
        made = self.out / "kept"
        narrow("quantize", self.samples / "deepseek-even", made, "--layout", "compressed-tensors", "--to", "nvfp4", "--keep", "q_proj")
        want = layouts.read(self.samples / "deepseek-even")
        stored = {n: t for f in made.glob("*.safetensors") for n, t in layouts.load_safetensors(f).items()}
        name = "model.layers.0.self_attn.q_proj.weight"
        self.assertEqual(stored[name].dtype, "F32")
        self.assertTrue((bits(layouts.number(stored[name])) == bits(want[name])).all())
        self.assertFalse([n for n in stored if n.endswith("scale_inv")])
        self.assertIn("0 errors, 0 warnings", narrow("lint", made))  # noted: the model is BF16, and these values are not

    def test_what_was_no_number_before_is_counted(self):
        for value, layout, to in ((np.inf, "deepseek", "fp8_128x128"), (np.nan, "narrow", "nvfp4"), (-np.inf, "compressed-tensors", "mxfp4")):
            model = layouts.Model(self.samples / "plain")
            name = "model.layers.0.self_attn.q_proj.weight"
            x = layouts.number(model.tensors[name]).copy()
            x[1, 2] = x[-1, -1] = value
            model.put(name, layouts.f32(x))
            source, made = self.out / f"source-{layout}", self.out / f"not-finite-{layout}"
            model.save(source)
            told = json.loads(narrow("quantize", source, made, "--layout", layout, "--to", to, "--json"))
            self.assertEqual(told["not_finite"], 2)
        self.assertIn("2 values are NaN or Inf in FP32", narrow("quantize", source, made, "--layout", layout, "--to", to))
        self.assertIn("NaN or Inf in fp16", narrow("dequantize", self.huge(), self.out / "huge-back", "--to", "fp16"))

    def huge(self):
        """A weight of 448 * 1000, which FP32 holds and FP16 does not."""
        model = layouts.Model(self.samples / "deepseek-even")
        name = "model.layers.0.self_attn.q_proj.weight"
        model.put(name + "_scale_inv", layouts.f32(np.full(model.tensors[name + "_scale_inv"].array.shape, 1000)))
        model.save(self.out / "huge")
        return self.out / "huge"

    def test_row_scaled_nvfp4_and_its_factors(self):
        made = self.out / "rows"
        narrow("quantize", self.samples / "plain", made, "--layout", "narrow", "--to", "nvfp4", "--rule", "te_nvfp4_row")
        self.assertIn("nothing found", narrow("lint", made))
        model = layouts.Model(made)
        name = "model.layers.0.self_attn.q_proj.weight.scale2"
        factors = model.tensors[name].array.copy()
        factors[3:5] = np.nan
        file = made / model.file_of(name)
        data = bytearray(file.read_bytes())
        begin = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])[name]["data_offsets"][0] + 8 + int.from_bytes(data[:8], "little")
        data[begin:begin + factors.nbytes] = factors.tobytes()
        file.write_bytes(data)
        self.assertIn(f"{name}: 2 of {factors.size} factors NaN or Inf", narrow("lint", made, status=1))

    def test_configurations_of_blocks_that_do_not_fit_are_refused(self):
        """Scales of 2 x 2 for a block of 32 x 128, which wants 8 x 2: nobody said 128 x 128."""
        model = layouts.Model(self.samples / "ct-fp8-block")
        for group in model.config["quantization_config"]["config_groups"].values():
            group["weights"]["block_structure"] = [32, 128]
        model.save(self.out / "wrong-blocks")
        self.assertIn("blocks of 32 x 128", narrow("lint", self.out / "wrong-blocks", status=1))

    def test_zeros_stay_zeros(self):
        model = layouts.Model(self.samples / "plain")
        for name in [n for n in model.tensors if "layers.0" in n and "proj" in n]:
            model.put(name, layouts.bf16(np.zeros(model.tensors[name].array.shape)))
        model.save(self.out / "zeros")
        for layout, to in (("modelopt", "nvfp4"), ("compressed-tensors", "nvfp4"), ("narrow", "nvfp4"), ("modelopt", "fp8_tensor"), ("deepseek", "fp8_128x128")):
            made = self.out / f"zeros-{layout}-{to}"
            self.assertEqual(json.loads(narrow("quantize", self.out / "zeros", made, "--layout", layout, "--to", to, "--json"))["lost_blocks"], 0)
            narrow("dequantize", made, self.out / f"{made.name}-back")
            back = {n: layouts.number(t) for f in (self.out / f"{made.name}-back").glob("*.safetensors") for n, t in layouts.load_safetensors(f).items()}
            self.assertFalse(back["model.layers.0.self_attn.q_proj.weight"].any(), layout)

    def test_of_several_groups_each_tensor_takes_its_own(self):
        """Mixed precision: packed integers of 4 and of 3 bits in one model of compressed-tensors."""
        four, three = (layouts.Model(self.samples / name) for name in ("ct-int4-group", "ct-int3-group"))
        four.config["quantization_config"]["version"] = three.config["quantization_config"]["version"]
        groups = three.config["quantization_config"]["config_groups"] | {"group_1": four.config["quantization_config"]["config_groups"]["group_0"]}
        self.assertEqual(len(groups), 2)
        want = layouts.read(self.samples / "ct-int4-group")
        module = "model.layers.0.self_attn.q_proj."
        other = layouts.read(self.samples / "ct-int3-group")
        for name in [n for n in four.tensors if n.startswith(module)]:
            four.drop(name)
        for name in [n for n in three.tensors if n.startswith(module)]:
            four.put(name, three.tensors[name], beside="model.norm.weight")
        four.config["quantization_config"]["config_groups"] = groups
        four.save(self.out / "mixed")
        narrow("dequantize", self.out / "mixed", self.out / "mixed-back")
        back = {n: layouts.number(t) for f in (self.out / "mixed-back").glob("*.safetensors") for n, t in layouts.load_safetensors(f).items()}
        for name, x in back.items():
            self.assertTrue((bits(x) == bits((other if name.startswith(module) else want)[name])).all(), name)

    def test_a_folder_of_links_is_copied_into_the_new_one(self):
        blobs, snapshot, made = self.out / "hub/blobs", self.out / "hub/snapshots/a", self.out / "hub/snapshots/b"
        blobs.mkdir(parents=True)
        snapshot.mkdir(parents=True)
        for i, file in enumerate(sorted((self.samples / "plain").iterdir())):
            (blobs / f"{i}").write_bytes(file.read_bytes())
            (snapshot / file.name).symlink_to(f"../../blobs/{i}")
        before = {f.name: f.read_bytes() for f in blobs.iterdir()}
        narrow("quantize", snapshot, made, "--layout", "deepseek", "--to", "fp8_128x128")
        self.assertEqual({f.name: f.read_bytes() for f in blobs.iterdir()}, before)
        self.assertEqual({f.name for f in made.iterdir()}, {f.name for f in snapshot.iterdir()})

    def test_gguf_that_is_cut_fails_and_what_is_not_cast_is_no_bytes(self):
        whole = (self.samples / "gguf/model.gguf").read_bytes()
        cut = self.out / "cut.gguf"
        cut.write_bytes(whole[:-40])
        self.assertIn("truncated-file", narrow("lint", cut, status=1))
        narrow("cast", self.samples / "gguf/model.gguf", self.out / "some.safetensors", "--to", "bf16", "--tensors", "q_proj")
        got = layouts.load_safetensors(self.out / "some.safetensors")
        want = layouts.read(self.samples / "gguf/model.gguf")
        for name, t in got.items():
            self.assertIn(t.dtype, ("F32", "F16", "BF16"), name)
            self.assertEqual(t.array.shape, want[name].shape)

    def test_bad_requests_end_with_status_2_and_one_line(self):
        plain = self.samples / "plain"
        for words in (["quantize", plain, self.out / "x"], ["quantize", plain, self.out / "x", "--layout", "nosuch", "--to", "nvfp4"],
                      ["quantize", plain, self.out / "x", "--layout", "deepseek", "--to", "nvfp4"], ["quantize", plain, plain, "--layout", "deepseek", "--to", "fp8_128x128"],
                      ["quantize", plain / "model.safetensors.index.json", self.out / "x.safetensors", "--layout", "narrow", "--to", "nvfp4"],
                      ["quantize", plain, self.out / "x", "--layout", "compressed-tensors", "--to", "nvfp4", "--rule", "nvfp4_single"],
                      ["quantize", plain / "model-00001-of-00002.safetensors", plain / "model-00001-of-00002.safetensors", "--layout", "narrow", "--to", "nvfp4"],
                      ["quantize", plain, self.samples / "ct-fp8-block", "--layout", "narrow", "--to", "nvfp4"],
                      ["dequantize", plain, self.out / "x", "--to", "e4m3"], ["dequantize", self.out / "nosuch", self.out / "x"], ["lint"],
                      ["lint", self.out / "nosuch"], ["lint", plain, "--ignore", "nosuch"], ["lint", plain, "--format", "nosuch"]):
            done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, words)
            self.assertEqual(done.stderr.strip().count("\n"), 0, done.stderr)

    @unittest.skipIf(os.environ.get("NARROW_SANITIZE"), "a sanitizer has memory of its own")
    def test_memory_does_not_grow_with_the_model(self):
        folder = self.out / "large"
        folder.mkdir()
        block = np.random.default_rng(1).standard_normal(1 << 23, np.float32).view(np.uint32) >> 16
        block = block.astype("<u2").tobytes()  # 16 MiB
        names = [f"model.layers.{i}.mlp.down_proj.weight" for i in range(8)]
        size = 6 * len(block)
        header = {n: {"dtype": "BF16", "shape": [12 * 1024, 4096], "data_offsets": [i * size, (i + 1) * size]} for i, n in enumerate(names)}
        text = json.dumps(header).encode()
        with open(folder / "model.safetensors", "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for _ in range(6 * len(names)):
                file.write(block)
        for words in (["quantize", folder, self.out / "large-q", "--layout", "compressed-tensors", "--to", "nvfp4"],
                      ["lint", folder], ["lint", self.out / "large-q"], ["dequantize", self.out / "large-q", self.out / "large-d", "--to", "bf16"]):
            child = subprocess.Popen([PROGRAM, *map(str, words)], stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(child.returncode, 0, words)
            self.assertLess(usage.ru_maxrss / 1024, LARGEST_MEMORY, words)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
