// narrow manual: the pages of the manual, made of what the commands declare of themselves.
#include <filesystem>
#include <memory>

#include "cli/command.hpp"
#include "cli/json_value.hpp"
#include "cli/terminal.hpp"
#include "cli/write_file.hpp"
#include "narrow/base/version.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"

namespace app {
namespace of_manual {

struct Options {
  std::vector<std::string> names;
  std::optional<std::string> folder;
  bool json = false;
};

constexpr std::string_view program_summary = "number formats of machine learning, bit for bit";
constexpr std::string_view program_about =
    "narrow says what a number format does to a number, how each rounding rule and each real system converts it, "
    "what a GPU's tensor cores make of a matrix product, what loss scalers and FP8 recipes do over a run, and "
    "whether a model still trains. Formats are fp32, tf32, fp16, bf16, e4m3, e5m2, e2m3, e3m2, e2m1, e8m0 and others "
    "of narrow formats, any eXmY, and block formats as mxfp8_e4m3 and nvfp4.\n\n"
    "Tensor files are .safetensors, .npy, .npz and .gguf; FILE:TENSOR names one tensor, and - is standard input. "
    "--json gives every digit. A number that overflows is a result; a request that cannot be met ends with status 2 "
    "and one line that says what would be right. What is written appears whole or not at all.";

struct Variable {
  std::string_view name, what;
};
constexpr Variable variables[] = {
    {"NARROW_DATA", "the folder data with the recordings, where it lies elsewhere; set to nothing: none is looked for"},
    {"NARROW_EXPLORER", "the folder with the explorer's page, where it lies elsewhere"},
    {"NARROW_SIMD", "the instruction set of the kernels, instead of the best that the CPU has; the bits are the same"},
    {"NARROW_NO_SYNC", "1: files are not waited for until they are on the disk"},
    {"NO_COLOR", "set: no colours on a terminal"},
    {"OMP_NUM_THREADS", "threads, where no option says how many; the bits do not depend on it"},
    {"TMPDIR", "where large deflated arrays are inflated"},
};

// A text for roff: what it would read as an escape or, at the beginning of a line, as a request is none.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
    if (c == '\\') out += "\\e";
    else if (c == '-') out += "\\-";  // not a hyphen: it is to be searched for and copied
    else if (c == '^') out += "\\(ha";
    else if (c == '~') out += "\\(ti";
    else if (c == '\'') out += "\\(aq";
    else if (c == '`') out += "\\(ga";
    else out += c;
  }
  return out;
}

std::string paragraphs(std::string_view text) {
  std::string out;
  for (const std::string& paragraph : paragraphs_of(text)) out += (out.empty() ? "" : ".PP\n") + roff(paragraph) + "\n";
  return out;
}

std::string head(const std::string& page, std::string_view summary) {
  std::string title = page;
  for (char& c : title) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return ".TH " + roff(title) + " 1 \"\" \"narrow " + roff(narrow::version) + "\" \"narrow\"\n.nh\n.ad l\n.SH NAME\n" +
         roff(page) + " \\- " + roff(summary) + "\n";
}

std::string option_item(const Argument& a) {
  std::string out = ".TP\n";
  std::string names;
  for (const std::string& name : a.names()) names += (names.empty() ? "\\fB" : "\\fR, \\fB") + roff(name);
  out += names + "\\fR" + (a.value_name.empty() ? "" : " \\fI" + roff(a.value_name) + "\\fR") + "\n";
  return out + roff(a.help) + "\n";
}

std::string examples(std::string_view text) { return ".SH EXAMPLES\n.nf\n" + roff(text) + "\n.fi\n"; }

std::string tail(const std::string& see) {
  return ".SH EXIT STATUS\n0 done, 1 a check ran and failed, 2 a request that cannot be met; one line on standard "
         "error says why.\n.SH SEE ALSO\n" +
         see;
}

std::string page_of(const Definition& d) {
  const std::string name = d.command->name;
  std::string out = head("narrow-" + name, d.command->summary);
  const Argument* values = d.positional();
  out += ".SH SYNOPSIS\n\\fBnarrow " + roff(name) + "\\fR [\\fIoptions\\fR]" +
         (values != nullptr ? " [\\fI" + roff(values->flags) + "\\fR ...]" : "") + "\n";
  out += ".SH DESCRIPTION\n" + paragraphs(d.command->about);
  out += ".SH OPTIONS\n";
  if (values != nullptr) out += ".TP\n\\fI" + roff(values->flags) + "\\fR\n" + roff(values->help) + "\n";
  for (const Argument& a : d.arguments)
    if (a.values == nullptr) out += option_item(a);
  out += ".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nthis, in short\n";
  return out + examples(d.command->example) + tail("\\fBnarrow\\fR(1)\n");
}

std::string first_page(const std::vector<Definition>& all) {
  std::string out = head("narrow", program_summary);
  out += ".SH SYNOPSIS\n\\fBnarrow\\fR \\fIcommand\\fR [\\fIoptions\\fR] [\\fIvalues\\fR ...]\n.SH DESCRIPTION\n";
  out += paragraphs(program_about) +
         ".SH OPTIONS\n.TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nthe commands, with examples; after a "
         "command its options\n.TP\n\\fB\\-\\-version\\fR\nthe version of narrow\n.SH COMMANDS\n";
  std::string shown, see;
  for (const Definition& d : all) {
    const std::string name = d.command->name;
    out += ".TP\n\\fB" + roff(name) + "\\fR\n" + roff(d.command->summary) + "\n";
    shown += (shown.empty() ? "" : "\n") + std::string(d.command->example);
    see += (see.empty() ? "" : ",\n") + ("\\fBnarrow\\-" + roff(name) + "\\fR(1)");
  }
  out += ".SH ENVIRONMENT\n";
  for (const Variable& v : variables) out += ".TP\n\\fB" + roff(v.name) + "\\fR\n" + roff(v.what) + "\n";
  return out + examples(shown) + tail(see + "\n");
}

int run(const Options& options) {
  const std::vector<Definition> all = definitions();
  std::vector<ReadyFile> pages;
  const auto add = [&](const std::string& name, std::string text) {
    pages.push_back({(options.folder ? *options.folder + "/" : "") + name + ".1", std::move(text)});
  };
  if (options.names.empty()) add("narrow", first_page(all));
  for (const Definition& d : all) {
    const bool asked = std::ranges::count(options.names, d.command->name) > 0;
    if (asked || (options.names.empty() && options.folder)) add(std::string("narrow-") + d.command->name, page_of(d));
  }
  for (const std::string& name : options.names) {
    std::vector<std::string_view> known;
    for (const Definition& d : all) known.emplace_back(d.command->name);
    if (std::ranges::count(known, name) == 0)
      throw narrow::Error("manual: there is no command " + narrow::quote(name) + "; " + narrow::hint(name, known) +
                          "see narrow --help");
  }
  if (!options.folder) {
    Json list = Json::array();
    for (const ReadyFile& page : pages) list.push_back({{"page", page.path}, {"text", page.content}});
    if (options.json) print(json_text(list));
    else
      for (const ReadyFile& page : pages) print(page.content);
    return 0;
  }
  make_folder(*options.folder);
  Json list = Json::array();
  for (const ReadyFile& page : pages) {
    write_file(page.path, page.content);
    list.push_back(page.path);
  }
  if (options.json) print(json_text({{"files", list}}));
  else print(std::to_string(pages.size()) + " pages in " + narrow::visible(*options.folder) + "\n");
  return 0;
}

Action declare(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.values("COMMAND", options->names,
                   "the pages of these commands (default: that of the program, with -o all)");
  arguments.option("-o,--output", options->folder, "DIR",
                   "a folder for narrow.1, narrow-cast.1, ... (default: standard output)");
  arguments.flag("--json", options->json, "print JSON: the pages, with -o their files");
  return [options] { return run(*options); };
}

}  // namespace of_manual

const Command manual_command{
    "manual", "the pages of the manual, as man reads them", "narrow manual validate | man -l -", of_manual::declare,
    "An installed program has them in place: man narrow, man narrow-validate. They are made of what each command "
    "declares of itself, as --help is."};

}  // namespace app
