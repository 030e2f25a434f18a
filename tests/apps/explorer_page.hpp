// As much of the explorer's page as `narrow explore` looks at.
#pragma once

namespace test {

inline constexpr const char* explorer_page =
    "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-AbC+/=' "
    "'wasm-unsafe-eval'; connect-src 'none'\">\n<meta name=\"narrow-files\" content=\"[]\">\n"
    "<script>const text = \"connect-src 'none' <meta name='narrow-files' content='[]'>\";</script>\n</html>\n";

}  // namespace test
