// narrow-mpi from outside: the bytes of narrow for any number of ranks; and what happens when one of them dies, a disk
// is full, or a run is broken off.
#include <doctest/doctest.h>
#include <sys/mount.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "apps/tensor_files.hpp"

namespace {

namespace fs = std::filesystem;
using test::contains;
using test::Folder;
using test::Ran;
using test::read_file;

const std::vector<int> rank_counts = {1, 2, 3, 4, 7};

// mpirun with these words; it may be root here.
Ran mpirun(std::vector<std::string> words) {
  words.insert(words.begin(), {NARROW_MPIRUN, "--oversubscribe"});
  test::RunOptions options;
  options.environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                         {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                         {"PRTE_ALLOW_RUN_AS_ROOT", "1"},
                         {"PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  return test::run_program(words, options);
}

Ran mpi(int ranks, const std::vector<std::string>& arguments) {
  std::vector<std::string> words{"-n", std::to_string(ranks), NARROW_MPI_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return mpirun(words);
}

std::map<std::string, std::string> files_in(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files[fs::relative(entry.path(), folder)] = read_file(entry.path());
  return files;
}

std::vector<float> numbers(std::size_t count, std::uint32_t seed) {
  std::vector<float> values(count);
  for (float& x : values) {
    seed = seed * 1664525u + 1013904223u;
    x = (static_cast<float>(seed >> 8) - 0x1p23f) * std::ldexp(1.0f, -23 - static_cast<int>(seed % 37));
  }
  return values;
}

std::vector<std::uint16_t> upper_halves(const std::vector<float>& values) {
  std::vector<std::uint16_t> out;
  for (const float x : values) out.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16));
  return out;
}

// A model in uneven shards: one tensor is so large that ranks share it (in three pieces), others are tiny or empty.
struct Model : Folder {
  Model() {
    fs::create_directory(*this / "model"), fs::create_directory(*this / "loose");
    std::string map;
    const auto add = [&](const std::string& shard, const std::vector<test::Entry>& entries) {
      write("model/" + shard, test::safetensors_of(entries, R"({"format":"pt"})"));
      for (const test::Entry& e : entries) map += (map.empty() ? "\"" : ",\"") + e.name + "\":\"" + shard + "\"";
    };
    const std::vector<float> large = numbers(9000000, 1);
    add("a.safetensors", {{"large", "BF16", "[3000,3000]", test::raw(upper_halves(large))}});
    std::vector<test::Entry> small;
    for (int i = 0; i < 40; ++i)
      small.push_back({"small." + std::to_string(i), "F32", "[" + std::to_string(i) + ",33]",
                       test::raw(numbers(static_cast<std::size_t>(i) * 33, static_cast<std::uint32_t>(i)))});
    add("b.safetensors", small);
    std::vector<float> strange = numbers(100001, 3);
    strange[7] = NAN, strange[99999] = INFINITY;
    add("c.safetensors", {{"strange", "F32", "[100001]", test::raw(strange)},
                          {"none", "F32", "[0]", ""},
                          {"ids", "I64", "[2]", std::string(16, '\1')}});
    write("model/model.safetensors.index.json", R"({"metadata":{"total_size":1},"weight_map":{)" + map + "}}");
    for (const char* shard : {"a.safetensors", "b.safetensors"})
      write("loose/" + std::string(shard), read_file(*this / "model/" + shard));
  }
};

const Model& model() {
  static const Model made;
  return made;
}

// The same request with narrow, and with each number of ranks: what is said, how it ends, and the files. OUT is a
// folder of its own.
void check_same(const std::vector<std::string>& arguments, const std::vector<int>& counts = {2, 3, 7}) {
  const auto run = [&](int ranks) {
    const Folder out;
    std::vector<std::string> words = arguments;
    const auto replace = [](std::string& text, const std::string& from, const std::string& to) {
      for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
        text.replace(at, from.size(), to);
    };
    for (std::string& word : words) replace(word, "@OUT", out / "out"), replace(word, "@IN", model() / "");
    Ran ran = ranks == 0 ? test::narrow(words) : mpi(ranks, words);
    replace(ran.out, out / "out", "@OUT");
    return std::tuple(ran.status, ran.out, files_in(out / ""), ran.err);
  };
  const auto alone = run(0);
  for (const int ranks : counts) {
    const auto shared = run(ranks);
    CAPTURE(arguments[0]);
    CAPTURE(ranks);
    CAPTURE(std::get<3>(shared).substr(0, 500));
    CHECK(std::get<0>(shared) == std::get<0>(alone));
    CHECK((std::get<1>(shared) == std::get<1>(alone)));
    CHECK((std::get<2>(shared) == std::get<2>(alone)));
    if (std::get<0>(alone) == 2) CHECK(contains(std::get<3>(shared), std::get<3>(alone)));
  }
}

// The process of a rank of the job that has this word among its arguments; 0 where there is none.
pid_t process_of(int rank, const std::string& word) {
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string words = read_file(entry.path() / "cmdline");
    if (words.starts_with(NARROW_MPI_PROGRAM) && contains(words, word) &&
        contains(read_file(entry.path() / "environ"),
                 std::string("OMPI_COMM_WORLD_RANK=") + std::to_string(rank) + '\0'))
      return std::stoi(name);
  }
  return 0;
}

}  // namespace

TEST_CASE("narrow-mpi: the bytes of narrow, for any number of ranks") {
  check_same({"stats", "@INmodel", "--json"}, rank_counts);
  check_same({"stats", "@INmodel", "@INloose/b.safetensors", "--scale", "auto", "--csv", "@OUT.csv"});
  check_same({"stats", "@INloose", "--total", "--scale", "best-sqnr", "--formats", "e4m3,fp16,nvfp4"}, {3});
  check_same({"stats", "@INloose", "--total", "--fail-if", "e4m3.underflow > 0"});
  check_same({"histogram", "@INmodel", "-o", "@OUT.csv"});
  check_same({"histogram", "@INloose", "--total", "--text", "--formats", "fp16,mxfp4"}, {4});
  check_same({"compare", "@INmodel/model.safetensors.index.json", "@INmodel/model.safetensors.index.json"});
  check_same({"compare", "@INmodel/b.safetensors", "@INmodel/c.safetensors", "--json"});
  check_same({"compare", "@INmodel", "@INloose"}, {3});
  check_same({"cast", "@INmodel", "@OUT", "--to", "nvfp4"}, rank_counts);
  check_same({"cast", "@INmodel", "@OUT", "--to", "e2m3", "--rounding", "stochastic", "--tensors", "large"});
  check_same({"cast", "@INmodel/model.safetensors.index.json", "@OUT.safetensors", "--to", "e4m3"});
  check_same({"cast", "@INmodel/a.safetensors", "@OUT.npy", "--to", "e2m1"}, {2});
  check_same({"formats", "fp16"}, {2});
}

TEST_CASE("narrow-mpi: what cannot be done is said once, as narrow says it") {
  const Folder folder;
  fs::create_directory(folder / "empty");
  check_same({"stats", folder / "empty"}, rank_counts);
  check_same({"stats", "@INmodel", "--formats", "fp99"}, {2});
  check_same({"cast", "@INmodel/a.safetensors", folder / "nowhere/a.safetensors", "--to", "fp16"}, {3});
  fs::copy(model() / "model", folder / "model");
  fs::remove(folder / "model/b.safetensors");
  check_same({"stats", folder / "model"}, {1, 3});
  check_same({"cast", folder / "model", "@OUT", "--to", "fp16"}, {3});
}

// The serial emulator says what ranks that are processes get, bit for bit.
TEST_CASE("narrow-mpi: sums over real messages have the bits of the emulator, in every order and format") {
  const Folder folder;
  for (const int ranks : {1, 2, 3, 4, 7})
    for (const std::string algorithm : {"ring", "tree", "recursive-doubling", "fp32-once", "linear"})
      for (const std::string format : {"fp32", "bf16", "fp16", "e5m2", "mxfp8_e5m2"}) {
        if (ranks > 3 && format != "bf16") continue;
        std::vector<std::string> words = {"all-reduce",          "--algorithm", algorithm, "--format", format,
                                          "--elements",          "1001",        "--seed",  "5",        "--ranks",
                                          std::to_string(ranks), "-o"};
        if (format == "e5m2") words.insert(words.begin() + 1, {"--error-feedback", "--steps", "3"});
        words.push_back(folder / "alone.npy");
        const Ran alone = test::narrow(words);
        words.back() = folder / "shared.npy";
        const Ran shared = mpi(ranks, words);
        CAPTURE(ranks);
        CAPTURE(algorithm);
        CAPTURE(format);
        CAPTURE(shared.err);
        CHECK(alone.status == 0);
        CHECK(shared.status == 0);
        CHECK(shared.out == alone.out);
        CHECK((read_file(folder / "shared.npy") == read_file(folder / "alone.npy")));
      }
  const Ran library =
      mpi(2, {"all-reduce", "--algorithm", "mpi", "--format", "fp16", "--elements", "1001", "-o", folder / "mpi.npy"});
  CHECK(library.status == 0);
  CHECK(test::narrow({"all-reduce", "--format", "fp16", "--elements", "1001", "--ranks", "2", "-o", folder / "two.npy"})
            .status == 0);
  CHECK((read_file(folder / "mpi.npy") == read_file(folder / "two.npy")));  // of two numbers there is one sum
}

TEST_CASE("narrow-mpi: data parallel training has the bits of ranks in one process") {
  const std::vector<std::vector<std::string>> kinds = {
      {"--recipe", "bf16-amp"},
      {"--recipe", "fp32,fp16-amp", "--order", "recursive-doubling", "--reduce", "e5m2"},
      {"--recipe", "fp8-delayed", "--order", "fp32-once", "--reduce", "mxfp8_e5m2", "--error-feedback",
       "--micro-batches", "2"},
      {"--recipe", "fp32", "--task", "lm", "--width", "32", "--layers", "1", "--context", "32", "--steps", "3"}};
  for (const std::vector<std::string>& kind : kinds)
    for (const int ranks : {2, 4}) {
      const Folder folder;
      std::vector<std::string> words = {"train", "--ranks", std::to_string(ranks), "--steps",
                                        "20",    "-o",      folder / "alone"};
      if (kind.size() > 2 && kind.back() == "3") words.erase(words.begin() + 3, words.begin() + 5);
      words.insert(words.end(), kind.begin(), kind.end());
      const Ran alone = test::narrow(words);
      *std::find(words.begin(), words.end(), folder / "alone") = folder / "shared";
      words.erase(words.begin() + 1, words.begin() + 3);  // the size is MPI's
      const Ran shared = mpi(ranks, words);
      CAPTURE(kind[1]);
      CAPTURE(ranks);
      CAPTURE(shared.err);
      CAPTURE(alone.err);
      CHECK(alone.status == 0);
      CHECK(shared.status == 0);
      CHECK(shared.out == alone.out);
      CHECK((files_in(folder / "shared") == files_in(folder / "alone")));
    }
  CHECK(mpi(2, {"train", "--recipe", "fp32", "--order", "mpi", "--steps", "3"}).status == 0);
}

TEST_CASE("narrow-mpi: a failure that the others do not share ends them all") {
  const std::vector<std::string> other = {"stats", model() / "loose",  ":",     "-n",
                                          "1",     NARROW_MPI_PROGRAM, "stats", model() / "loose"};
  std::vector<std::string> words = other;
  words.insert(words.end(), {"--formats", "fp99"});
  const Ran ran = mpi(1, words);
  CHECK(ran.status == 2);
  CHECK(contains(ran.err, "narrow: rank 1: --formats: unknown format 'fp99'"));

  // Nodes whose folders are not the same: other sizes under the same names, or other names.
  const Folder folder;
  for (const char* node : {"a", "b", "c"}) fs::create_directory(folder / node);
  const auto npy = [](std::size_t count) {
    return test::npy("{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(count) + ",), }",
                     test::raw(std::vector<float>(count)));
  };
  folder.write("a/x.npy", npy(100)), folder.write("b/x.npy", npy(7000000)), folder.write("c/y.npy", npy(100));
  for (const std::vector<std::string>& request :
       std::vector<std::vector<std::string>>{{"stats", "."},
                                             {"histogram", "x.npy"},
                                             {"compare", "x.npy", "x.npy"},
                                             {"cast", "x.npy", "y.safetensors", "--to", "fp16"}})
    for (const auto& [first, second] : {std::pair("a", "b"), {"b", "a"}, {"a", "c"}}) {
      std::vector<std::string> both = {"-wdir", folder / second, NARROW_MPI_PROGRAM};
      both.insert(both.end(), request.begin(), request.end());
      std::vector<std::string> line = {"-n", "1", "-wdir", folder / first, NARROW_MPI_PROGRAM};
      line.insert(line.end(), request.begin(), request.end());
      line.insert(line.end(), {":", "-n", "1"});
      line.insert(line.end(), both.begin(), both.end());
      const Ran apart = mpirun(line);
      CAPTURE(request[0]);
      CAPTURE(apart.err);
      if (request[0] == "cast" && apart.status == 0) continue;  // one rank did it all
      CHECK(apart.status == 2);
      CHECK((contains(apart.err, "do not see the same files") || contains(apart.err, "o such file")));
    }
  const Ran input = mpi(2, {"stats", "-"});
  CHECK(input.status == 2);
  CHECK(contains(input.err, "narrow: standard input reaches one rank only"));
}

TEST_CASE("narrow-mpi: a queue of training runs and one of experiments give the files of narrow") {
  check_same({"train", "--task", "digits", "--recipe", "fp32,fp16-amp", "--seed", "1,2", "--steps", "20", "-o", "@OUT"},
             {1, 3});
  check_same({"run", "order_matters", "--fast", "--json"}, {2});
  check_same({"run", "training_recipes", "--fast", "-o", "@OUT"}, {3});
  const Folder a, b;
  const std::vector<std::string> request = {"report", "--only", "gradient_underflow,format_choice", "--fast", "-o"};
  const auto with = [&](const std::string& folder) {
    std::vector<std::string> words = request;
    words.push_back(folder);
    return words;
  };
  CHECK(test::narrow(with(a / "page")).status == 0);
  CHECK(mpi(2, with(b / "page")).status == 0);
  CHECK((files_in(a / "page") == files_in(b / "page")));
}

TEST_CASE("narrow-mpi: a rank that is killed ends the job with its name and its item; --resume goes on") {
  const Folder folder;
  const std::vector<std::string> request = {"train",  "--task", "digits",  "--recipe", "fp32,bf16-amp",
                                            "--seed", "1,2",    "--steps", "2500",     "-o"};
  std::vector<std::string> words = request;
  words.push_back(folder / "shared");
  Ran ran;
  std::thread job([&] { ran = mpi(3, words); });
  pid_t victim = 0;
  for (int i = 0; i < 200 && victim == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (!fs::exists(folder / "shared")) continue;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // at work by now
    victim = process_of(1, folder / "shared");
  }
  const auto start = std::chrono::steady_clock::now();
  if (victim != 0) kill(victim, SIGKILL);
  job.join();
  REQUIRE(victim != 0);
  CAPTURE(ran.err);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
  CHECK(ran.status != 0);
  CHECK(contains(ran.err, "narrow-mpi: rank 1 died at "));
  CHECK(contains(ran.err, ", seed "));
  for (const auto& [name, content] : files_in(folder / "shared")) CHECK_MESSAGE(!contains(name, ".tmp"), name);

  words.push_back("--resume");
  CHECK(mpi(3, words).status == 0);
  std::vector<std::string> alone = request;
  alone.push_back(folder / "alone");
  CHECK(test::narrow(alone).status == 0);
  for (const auto& [name, content] : files_in(folder / "alone"))
    if (name.ends_with(".csv")) CHECK_MESSAGE((read_file(folder / "shared/" + name) == content), name);
}

TEST_CASE("narrow-mpi: a rank that is killed in the middle of a cast leaves no half file") {
  const Folder folder;
  fs::create_directory(folder / "in");
  for (int i = 0; i < 6; ++i)  // holes, but 256 MiB each
  {
    const std::string name = folder / "in/x" + std::to_string(i) + ".npy";
    std::ofstream(name, std::ios::binary)
        << test::npy("{'descr': '<f4', 'fortran_order': False, 'shape': (67108864,), }", "");
    fs::resize_file(name, fs::file_size(name) + (std::uint64_t{1} << 28));
  }
  Ran ran;
  std::thread job([&] { ran = mpi(2, {"cast", folder / "in", folder / "out", "--to", "nvfp4"}); });
  pid_t victim = 0;
  for (int i = 0; i < 200 && victim == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (fs::exists(folder / "out")) victim = process_of(0, folder / "out");
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  if (victim != 0) kill(victim, SIGKILL);
  job.join();
  REQUIRE(victim != 0);
  CAPTURE(ran.err);
  CHECK(contains(ran.err, "narrow-mpi: rank 0 died"));
  for (const auto& [name, content] : files_in(folder / "out")) {
    CHECK_MESSAGE(name.ends_with(".safetensors"), name);
    CHECK(test::narrow({"inspect", folder / "out/" + name}).status == 0);
  }
}

TEST_CASE("narrow-mpi: a full disk is an error with a rank and a file, and nothing half is left") {
  const Folder folder;
  fs::create_directory(folder / "disk");
  if (mount("tmpfs", (folder / "disk").c_str(), "tmpfs", 0, "size=3m") != 0) {
    MESSAGE("skipped: no small file system can be mounted here");
    return;
  }
  for (const std::string& out : {folder / "disk/out", folder / "disk/one.safetensors"}) {
    const bool one = out.ends_with(".safetensors");
    const Ran ran =
        mpi(3, {"cast", model() / (one ? "model/model.safetensors.index.json" : "model"), out, "--to", "e4m3"});
    CAPTURE(ran.err);
    CHECK(ran.status == 2);
    CHECK(contains(ran.err, "narrow: rank "));
    CHECK(contains(ran.err, "No space left on device"));
    for (const auto& [name, content] : files_in(folder / "disk")) CHECK_MESSAGE(!contains(name, ".tmp"), name);
    CHECK(!fs::exists(folder / "disk/out/a.safetensors"));
    CHECK(!fs::exists(folder / "disk/out/model.safetensors.index.json"));
  }
  umount((folder / "disk").c_str());
}
