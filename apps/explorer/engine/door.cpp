// What JavaScript calls: room for the words of a request, the request, and what came of it.
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/signals.hpp"
#include "cli/terminal.hpp"
#include "cli/write_file.hpp"
#include "narrow/plot/draw.hpp"
#include "narrow/tensor/find_data.hpp"
#include "tensors/histogram_plot.hpp"

#define EXPORT(name) extern "C" __attribute__((export_name(#name)))

namespace {
std::string words, out, err;
}

EXPORT(room) char* room(std::size_t size) {
  words.assign(size, '\0');
  return words.data();
}

// The words lie in the room, each ended by a zero byte.
EXPORT(run) int run() {
  std::vector<const char*> list = {"narrow"};
  for (std::size_t at = 0; at < words.size(); at += std::strlen(&words[at]) + 1) list.push_back(&words[at]);
  app::Captured captured;
  int status = 2;
  try {
    status = app::run_command_line(static_cast<int>(list.size()), list.data());
  } catch (const std::bad_alloc&) {
    app::complain(app::short_of_memory);
  } catch (const std::exception& error) {
    app::complain(error.what());
  }
  out = std::move(captured.out);
  err = std::move(captured.err);
  return status;
}

EXPORT(out_at) const char* out_at() { return out.data(); }
EXPORT(out_size) std::size_t out_size() { return out.size(); }
EXPORT(err_at) const char* err_at() { return err.data(); }
EXPORT(err_size) std::size_t err_size() { return err.size(); }

// What the program has and a page does not: files to write, data of its own, pictures by another program.
namespace app {
void write_file(const std::string&, std::string_view content) { print(content); }
narrow::report::Plot histogram_plot(const std::vector<NamedCounts>&, const std::vector<PlotFormat>&, bool,
                                    const std::string&) {
  throw narrow::Error("the page draws its own pictures");
}
}  // namespace app
namespace narrow {
std::optional<std::string> find_data(std::string_view) { return {}; }
std::string require_data(std::string_view name) { throw Error("the page holds no '" + std::string(name) + "'"); }
namespace plot {
std::string why_not(PictureKind, const DrawOptions&) { return "the page draws its own pictures"; }
std::string draw(const report::Plot&, PictureKind, const DrawOptions&) { throw Error(why_not({}, {})); }
}  // namespace plot
}  // namespace narrow
