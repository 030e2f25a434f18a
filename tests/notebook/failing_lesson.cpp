// %% [markdown]
// # A lesson that can fail
//
// Half of $\frac{1}{2}$ is a quarter. The environment variable LESSON_FAILS chooses how it ends.

// %%
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "lesson.hpp"

using namespace lesson;

// %% tags=["program"]
int main() {
const char* variable = std::getenv("LESSON_FAILS");
const std::string fails = variable == nullptr ? "" : variable;

// %%
print("before");
say("**{}** is a number", 0.25);
bits(0x3C00, {5, 10, 15});
narrow::report::Table numbers = new_table("Numbers", {narrow::report::text_column("name"), narrow::report::power_column("value")});
add_row(numbers, "a quarter", 0.25);
table(numbers);
expect(0.5 / 2 == 0.25, "half of a half is a quarter");

// %%
if (fails == "throw") throw std::runtime_error("this was thrown");
expect(fails != "expect", "two and two are five");
if (fails == "abort") std::abort();
if (fails == "status") std::_Exit(3);

// %%
narrow::report::Panel panel;
panel.series.push_back(new_series("line", narrow::report::Draw::line));
add_point(panel.series[0], 0, 1);
add_point(panel.series[0], 1, 2);
picture(new_plot("A line", "from 1 to 2", {panel}));

// %% tags=["program"]
}
