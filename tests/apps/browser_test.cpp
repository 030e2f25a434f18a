// The page as a browser sees it. Skipped with a message where no Chromium is installed.
#include <cstdlib>

#include "tensor_files.hpp"

using namespace test;

namespace {

std::string find_browser() {
  const char* path = std::getenv("PATH");
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"})
    for (std::string rest = path != nullptr ? path : ""; !rest.empty();) {
      const std::size_t end = std::min(rest.find(':'), rest.size());
      const std::string file = rest.substr(0, end) + "/" + name;
      if (end > 0 && access(file.c_str(), X_OK) == 0) return file;
      rest.erase(0, std::min(end + 1, rest.size()));
    }
  MESSAGE("skipped: no chromium on PATH");
  return "";
}

// Sizes of the pictures, texts that lie over each other by more than a hair, and texts that leave their picture.
constexpr const char* measuring = R"(<script>
const seen = { pictures: 0, empty: 0, overlaps: [], outside: [], wide: document.documentElement.scrollWidth };
for (const svg of document.querySelectorAll('svg')) {
  const all = svg.getBoundingClientRect();
  seen.pictures += 1;
  if (!(all.width > 300 && all.height > 60)) seen.empty += 1;
  const boxes = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect(), t.hasAttribute('transform')]);
  boxes.forEach(([text, a, turned], i) => {
    if (a.left < all.left - 1 || a.right > all.right + 1 || a.top < all.top - 1 || a.bottom > all.bottom + 1) seen.outside.push(text);
    boxes.slice(0, i).forEach(([other, b, b_turned]) => {
      const x = Math.min(a.right, b.right) - Math.max(a.left, b.left), y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (x > 1 && y > 5 && !turned && !b_turned) seen.overlaps.push(text + ' / ' + other);
    });
  });
}
const mark = document.createElement('pre');
mark.id = 'measured';
mark.textContent = '[[[' + JSON.stringify(seen) + ']]]';
document.body.append(mark);
</script>)";

Ran browse(const std::string& browser, const std::vector<std::string>& more, const Folder& folder) {
  std::vector<std::string> command = {browser,
                                      "--headless",
                                      "--no-sandbox",
                                      "--disable-gpu",
                                      "--no-first-run",
                                      "--hide-scrollbars",
                                      "--enable-logging=stderr",
                                      "--user-data-dir=" + (folder / "profile")};
  command.insert(command.end(), more.begin(), more.end());
  return run_program(command);
}

}  // namespace

TEST_CASE("apps: in a browser every picture has a size and no two texts overlap and the console is silent") {
  const std::string browser = find_browser();
  if (browser.empty()) return;
  const Folder folder;
  RunOptions patient;
  patient.limit = std::chrono::seconds(170);
  const Ran report = run({"report", "-o", folder / "report", "--fast", "--only",
                          "gradient_underflow,loss_scaling,fp8_scaling,memory_and_speed,format_choice"},
                         patient);
  REQUIRE(report.status == 0);
  std::string page = read_file(folder / "report/index.html");
  page.insert(page.find("</body>"), measuring);
  const std::string measured = folder.write("report/measured.html", page);
  for (const std::string width : {"1200", "800"}) {
    const Ran ran = browse(browser, {"--window-size=" + width + ",2000", "--dump-dom", "file://" + measured}, folder);
    CHECK(ran.status == 0);
    CHECK(!contains(ran.err, "CONSOLE"));
    const std::size_t begin = ran.out.rfind("[[[{"), end = ran.out.rfind("}]]]");
    REQUIRE(begin != std::string::npos);
    REQUIRE(end != std::string::npos);
    std::string text = ran.out.substr(begin + 3, end + 1 - begin - 3);
    for (const auto& [entity, sign] : {std::pair{"&lt;", "<"}, {"&gt;", ">"}, {"&amp;", "&"}})
      for (std::size_t at; (at = text.find(entity)) != std::string::npos;)
        text.replace(at, std::string(entity).size(), sign);
    const Json seen = Json::parse(text);
    CHECK(seen["pictures"] >= 5);
    CHECK(seen["empty"] == 0);
    CHECK(seen["overlaps"] == Json::array());
    CHECK(seen["outside"] == Json::array());
    CHECK(seen["wide"] <= std::stoi(width));  // nothing scrolls sideways
  }
}

TEST_CASE("apps: the page can be photographed in light and in dark and the two differ") {
  const std::string browser = find_browser();
  if (browser.empty()) return;
  const Folder folder;
  REQUIRE(run({"report", "-o", folder.path(), "--fast", "--only", "memory_and_speed"}).status == 0);
  const std::string page = "file://" + (folder / "index.html");
  const auto shot = [&](const std::string& name, const std::string& scheme) {
    browse(browser,
           {"--window-size=1000,1400", "--blink-settings=preferredColorScheme=" + scheme,
            "--screenshot=" + (folder / name), page},
           folder);
    return read_file(folder / name);
  };
  const std::string light = shot("light.png", "1"), dark = shot("dark.png", "0");
  CHECK(light.size() > 20000);  // an empty page has under 10 kB
  CHECK(dark.size() > 20000);
  CHECK(light != dark);
}
