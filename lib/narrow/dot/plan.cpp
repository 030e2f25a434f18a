#include "narrow/dot/plan.hpp"

#include <array>

#include "narrow/base/error.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

namespace {

struct OrderWord {
  std::string_view word;
  SumOrder order;
};
constexpr OrderWord order_words[] = {{"promote", SumOrder::promote}, {"split", SumOrder::split},
                                     {"slice", SumOrder::slice},     {"even", SumOrder::even},
                                     {"blocks", SumOrder::blocks},   {"streamk", SumOrder::stream_k}};

struct JoinWord {
  std::string_view word;
  Join join;
};
constexpr JoinWord join_words[] = {
    {"pairwise", Join::pairwise}, {"reversed", Join::reversed}, {"halving", Join::halving}};
struct PartialsWord {
  std::string_view word;
  Partials partials;
};
constexpr PartialsWord partials_words[] = {
    {"output", Partials::output}, {"stored", Partials::stored}, {"serial", Partials::serial}};

// The orders that keep runs of products together.
bool has_runs(const Plan& plan) {
  return plan.order == SumOrder::slice || plan.order == SumOrder::even || plan.order == SumOrder::blocks;
}

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw Error("plan " + quote(text) + ": " + why +
              "; plans are chain, promote:128, split:1408, slice:4, even:3, blocks:128, streamk:132, with options "
              "after commas: "
              "pairwise, reversed, halving, output, stored, serial, rne, rna, run=32 (slice, even, blocks), "
              "tile=128x128x64 (streamk), "
              "residue=32 (chain, split), c=last (chain), c=first (split), c=after");
}

// Takes a number from 1 to 2^30 off the front; 0 when there is none.
int take_length(std::string_view& text) {
  std::int64_t value = 0;
  std::size_t n = 0;
  while (n < text.size() && text[n] >= '0' && text[n] <= '9' && value <= (1 << 30)) value = value * 10 + (text[n++] - '0');
  text.remove_prefix(n);
  return n == 0 || value > (1 << 30) ? 0 : static_cast<int>(value);
}

int whole_length(std::string_view digits, std::string_view text, const char* what) {
  const int value = take_length(digits);
  if (value == 0 || !digits.empty()) refuse(text, std::string(what) + " must be a number from 1 to 2^30");
  return value;
}

void read_tile(Plan& plan, std::string_view sizes, std::string_view text) {
  for (int* const size : {&plan.tile_rows, &plan.tile_cols, &plan.tile_k}) {
    *size = take_length(sizes);
    if (*size == 0) refuse(text, "a tile has three sizes, as in tile=128x128x64");
    if (size != &plan.tile_k && (sizes.empty() || sizes[0] != 'x')) refuse(text, "a tile has three sizes, as in tile=128x128x64");
    if (size != &plan.tile_k) sizes.remove_prefix(1);
  }
  if (!sizes.empty()) refuse(text, "a tile has three sizes, as in tile=128x128x64");
}

void read_option(Plan& plan, std::string_view word, std::string_view text) {
  const bool joins = plan.order != SumOrder::chain && plan.order != SumOrder::promote && plan.order != SumOrder::blocks;
  for (const JoinWord& w : join_words)
    if (joins && word == w.word) return void(plan.join = w.join);
  for (const PartialsWord& w : partials_words)
    if (joins && word == w.word) return void(plan.partials = w.partials);
  if (word == "rne" || word == "rna") {
    plan.operands = word == "rne" ? Operands::nearest_even : Operands::nearest_away;
  } else if (has_runs(plan) && word.starts_with("run=")) {
    plan.run = whole_length(word.substr(4), text, "run");
  } else if (plan.order == SumOrder::stream_k && word.starts_with("tile=")) {
    read_tile(plan, word.substr(5), text);
  } else if ((plan.order == SumOrder::chain || plan.order == SumOrder::split) && word.starts_with("residue=")) {
    plan.residue = whole_length(word.substr(8), text, "residue");
  } else if (plan.order == SumOrder::chain && word == "c=last") {
    plan.c = PlaceOfC::last;
  } else if (plan.order == SumOrder::split && word == "c=first") {
    plan.c = PlaceOfC::first;
  } else if (word == "c=after") {
    plan.c = PlaceOfC::after;
  } else {
    refuse(text, "no option " + quote(word) + " here");
  }
}

}  // namespace

Plan parse_plan(std::string_view text) {
  Plan plan;
  std::string_view rest = text;
  const auto next_word = [&] {
    const std::size_t comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    if (comma != std::string_view::npos && rest.empty()) refuse(text, "nothing follows the last comma");
    return word;
  };
  const std::string_view head = next_word();
  if (head != "chain") {
    const std::size_t colon = head.find(':');
    bool known = false;
    for (const OrderWord& w : order_words)
      if (head.substr(0, colon) == w.word) plan.order = w.order, known = true;
    if (!known) refuse(text, "unknown order " + quote(head.substr(0, colon)));
    if (colon == std::string_view::npos) refuse(text, "a length is missing after " + quote(head));
    plan.length = whole_length(head.substr(colon + 1), text, "the length");
  }
  while (!rest.empty()) read_option(plan, next_word(), text);
  return plan;
}

std::string plan_text(const Plan& plan) {
  std::string text = "chain";
  for (const OrderWord& w : order_words)
    if (plan.order == w.order) text = std::string(w.word) + ":" + std::to_string(plan.length);
  for (const JoinWord& w : join_words)
    if (plan.join == w.join) text += "," + std::string(w.word);
  for (const PartialsWord& w : partials_words)
    if (plan.partials == w.partials) text += "," + std::string(w.word);
  if (plan.operands == Operands::nearest_even) text += ",rne";
  if (plan.operands == Operands::nearest_away) text += ",rna";
  if (has_runs(plan) && plan.run != 0) text += ",run=" + std::to_string(plan.run);
  if (plan.residue != 0) text += ",residue=" + std::to_string(plan.residue);
  if (plan.c == PlaceOfC::last) text += ",c=last";
  if (plan.c == PlaceOfC::first) text += ",c=first";
  if (plan.c == PlaceOfC::after) text += ",c=after";
  const Plan usual;
  if (plan.order == SumOrder::stream_k &&
      std::array{plan.tile_rows, plan.tile_cols, plan.tile_k} != std::array{usual.tile_rows, usual.tile_cols, usual.tile_k})
    text += ",tile=" + std::to_string(plan.tile_rows) + "x" + std::to_string(plan.tile_cols) + "x" + std::to_string(plan.tile_k);
  return text;
}

}  // namespace narrow
