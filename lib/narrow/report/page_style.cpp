#include "narrow/report/page_style.hpp"

#include <array>
#include <cstdio>

#include "narrow/report/palette.hpp"

namespace narrow::report {
namespace {

constexpr const char* light_page = " --desk:#F5F6F8; --card:#FFFFFF; --rule:#E1E5E9; --tint:#F5F7F9; --link:#0B62A8;";
constexpr const char* dark_page = " --desk:#0F1215; --card:#171B20; --rule:#2C333B; --tint:#1D232A; --link:#7DB7F0;";

std::string variables(bool dark) {
  std::string out;
  for (const RoleColour& colour : role_colours) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), " --%s:#%06X;", colour.name, dark ? colour.dark : colour.light);
    out += text.data();
  }
  return out;
}

constexpr const char* rules = R"(
* { box-sizing:border-box; }
html { scroll-behavior:smooth; -webkit-text-size-adjust:100%; }
body { margin:0; background:var(--desk); color:var(--ink); font-size:16px; line-height:1.6;
  font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","Noto Sans","DejaVu Sans",sans-serif; }
main { max-width:1000px; margin:0 auto; padding:0 20px 80px; }
a { color:var(--link); text-decoration:none; } a:hover { text-decoration:underline; }
code, pre { font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace; font-size:.86em; }
sup, sub { font-size:.72em; line-height:0; }
header { padding:56px 0 8px; }
h1 { margin:0 0 10px; font-size:2.1em; line-height:1.15; letter-spacing:-.02em; font-weight:700; }
header p { margin:0; max-width:46em; color:var(--muted); font-size:1.05em; }
h2 { margin:0; font-size:1.42em; line-height:1.3; letter-spacing:-.01em; font-weight:650; text-wrap:pretty; }
h3 { margin:0 0 2px; font-size:1.02em; line-height:1.4; font-weight:650; }
.card { background:var(--card); border:1px solid var(--rule); border-radius:12px; }
.answers { margin:24px 0 0; padding:8px 28px 14px; }
.answers dt { margin-top:10px; font-weight:650; } .answers dd { margin:2px 0 0; line-height:1.45; }
.found { margin:28px 0 56px; padding:8px 28px 10px; list-style:none; }
.found li { display:grid; grid-template-columns:2.1em 1fr; padding:13px 0 14px; border-top:1px solid var(--rule); }
.found li:first-child { border-top:0; }
.found .n { color:var(--muted); font-variant-numeric:tabular-nums; }
.found a { display:block; color:inherit; }
.found .what { display:block; color:var(--muted); font-size:.84em; line-height:1.45; }
.found a:hover { text-decoration:none; } .found a:hover .said { color:var(--link); }
section { margin:0 0 40px; padding:30px 32px 22px; scroll-margin-top:16px; }
.label { display:flex; justify-content:space-between; gap:1em; margin-bottom:4px; color:var(--muted); font-size:.84em; }
.finding { margin:16px 0 22px; padding:2px 0 2px 16px; border-left:3px solid var(--blue); font-size:1.08em; line-height:1.5; }
.failed { border-left-color:var(--vermilion); }
.failed b, .found .failed-word { color:var(--vermilion); font-weight:650; }
.verdict { display:inline-block; padding:0 .55em; border-radius:.7em; font-size:.92em; font-weight:600; white-space:nowrap;
  border:1.5px solid var(--tone); background:color-mix(in srgb, var(--tone) 18%, transparent); }
.judged td { white-space:normal; } .judged td.long { min-width:11em; }
.verdict.holds { --tone:var(--blue); } .verdict.loose { --tone:var(--sky); } .verdict.depends { --tone:var(--orange); }
.verdict.wrong { --tone:var(--vermilion); } .verdict.not { --tone:var(--muted); }
.note { margin:0 0 14px; color:var(--muted); font-size:.9em; }
figure { margin:0 0 22px; break-inside:avoid; }
figcaption { margin-bottom:8px; } figcaption p { margin:0; color:var(--muted); font-size:.88em; line-height:1.45; }
.wide { overflow-x:auto; } .wide svg { display:block; width:100%; min-width:640px; height:auto; }
details, .open-table { border-top:1px solid var(--rule); padding:10px 0; }
summary { cursor:pointer; font-size:.94em; font-weight:600; } summary:hover { color:var(--link); }
summary small, .table-title small { color:var(--muted); font-weight:400; font-size:.92em; margin-left:.5em; }
.table-title { margin:0; font-size:.94em; font-weight:600; }
table { border-collapse:collapse; margin:10px 0 6px; font-size:.86em; line-height:1.4; font-variant-numeric:tabular-nums; }
th, td { padding:5px 12px; text-align:left; vertical-align:top; white-space:nowrap; }
th { color:var(--muted); font-weight:500; border-bottom:1px solid var(--axis); vertical-align:bottom; white-space:normal;
  max-width:11em; line-height:1.3; }
th:first-child, td:first-child { padding-left:2px; }
td { border-bottom:1px solid var(--rule); } tr:last-child td { border-bottom:0; }
tbody tr:hover td { background:var(--tint); }
th.r, td.r { text-align:right; } td.long { white-space:normal; min-width:12em; }
.unit { color:var(--muted); font-weight:400; }
.again { margin:14px 0 0; padding-top:14px; border-top:1px solid var(--rule); color:var(--muted); font-size:.88em; }
.again code { color:var(--text); background:var(--tint); border:1px solid var(--rule); border-radius:6px; padding:3px 8px;
  overflow-wrap:anywhere; }
footer { color:var(--muted); font-size:.86em; }
@media (max-width:640px) { main { padding:0 12px 40px; } header { padding-top:32px; } h1 { font-size:1.6em; }
  section { padding:20px 16px 14px; } .found, .answers { padding:4px 16px; } }
)";

constexpr const char* print_rules = R"(
@media print {
  @page { margin:14mm 13mm; }
  * { print-color-adjust:exact; -webkit-print-color-adjust:exact; }
  body { font-size:10pt; line-height:1.45; background:#FFF; } main { max-width:none; padding:0; }
  header { padding-top:0; } .card { border:0; border-radius:0; } .found, .answers { margin:14px 0 0; padding:0; }
  .found li { padding:6px 0; break-inside:avoid; }
  section { padding:0; margin:0; break-before:page; } a { color:inherit; } .label a { display:none; }
  .wide { overflow:visible; } .wide svg { min-width:0; } h2, h3, .finding { break-after:avoid; }
  details:not([open]) { display:none; } table { font-size:8pt; } tr { break-inside:avoid; }
}
)";

}  // namespace

std::string style_sheet(std::string_view light, std::string_view dark, std::string_view rules_of_page) {
  // Paper is white whatever the screen is: the rule for dark asks for a screen.
  std::string out = ":root { color-scheme:light dark;" + variables(false);
  out.append(light).append(" }\n@media screen and (prefers-color-scheme:dark) { :root {").append(variables(true));
  return out.append(dark).append(" } }").append(rules_of_page);
}

std::string page_style() { return style_sheet(light_page, dark_page, rules).append(print_rules); }

}  // namespace narrow::report
