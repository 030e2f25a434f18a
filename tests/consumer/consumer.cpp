// Links narrow::narrow: the umbrella header and the compiled parts.
#include <cstdio>
#include <narrow/narrow.hpp>

int main() {
  using namespace narrow;
  const Code code = parse_value("0.1", "fp16"_fmt);
  const std::string text = to_decimal(code, "fp16"_fmt);
  std::printf("%s\n", text.c_str());
  return code == 0x2E66 && text == "0.0999755859375" ? 0 : 1;
}
