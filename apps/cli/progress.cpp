#include "cli/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/terminal.hpp"
#include "narrow/text/quote.hpp"

namespace app {
namespace {

constexpr auto interval = std::chrono::milliseconds(100);

void write_all(int file, const std::string& text) {
  // A bar that cannot be drawn is no reason to stop the work.
  if (write(file, text.data(), text.size()) < 0) return;
}

}  // namespace

Progress::Progress(std::string label, std::uint64_t total, int file, std::chrono::milliseconds quiet)
    : label_(std::move(label)),
      total_(std::max<std::uint64_t>(total, 1)),
      file_(file),
      enabled_(is_terminal(file)),
      colour_(use_colour(file)),
      start_(Clock::now()),
      next_draw_((start_ + quiet).time_since_epoch().count()) {}

Progress::~Progress() {
  if (drawn_) write_all(file_, "\r\033[K");
}

void Progress::add(std::uint64_t count) {
  const std::uint64_t done = done_.fetch_add(count, std::memory_order_relaxed) + count;
  if (!enabled_) return;
  const Clock::time_point now = Clock::now();
  Clock::rep due = next_draw_.load(std::memory_order_relaxed);
  if (now.time_since_epoch().count() < due) return;
  // One thread wins the exchange and draws; the others go on with their work.
  const Clock::rep next = (now + interval).time_since_epoch().count();
  if (next_draw_.compare_exchange_strong(due, next, std::memory_order_relaxed)) draw(done, now);
}

void Progress::note(std::string text) {
  if (!enabled_) return;
  const std::lock_guard<std::mutex> lock(drawing_);
  note_ = std::move(text);
}

void Progress::draw(std::uint64_t done, Clock::time_point now) {
  const std::lock_guard<std::mutex> lock(drawing_);
  const double part = std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  char tail[64];
  std::snprintf(tail, sizeof tail, " %3.0f %%  %.0f s left", 100 * part, part > 0 ? elapsed * (1 - part) / part : 0.0);
  const int width = std::clamp(terminal_width(file_) - static_cast<int>(label_.size() + note_.size()) - 30, 10, 40);
  const auto filled = static_cast<std::size_t>(part * width);
  const std::string rest(static_cast<std::size_t>(width) - filled, '-');
  write_all(file_, "\r\033[K" + narrow::visible(label_) + " [" +
                       paint(std::string(filled, '#'), Colour::green, colour_) + rest + "]" + tail +
                       (note_.empty() ? "" : "  " + narrow::visible(note_)));
  drawn_ = true;
}

}  // namespace app
