#include "narrow/lesson/style.hpp"

#include "narrow/report/page_style.hpp"

namespace lesson {
namespace {

// What the palette of pictures does not have: the page, the fields of a code, the words of a program.
constexpr const char* light_page = R"( --desk:#FFFFFF; --card:#F7F8FA; --rule:#E3E7EB; --tint:#EEF1F4; --link:#0B62A8;
  --sign:#C9372C; --exponent:#1F8A4C; --mantissa:#2563C9; --key:#8B2FA8; --type:#0F6F75; --call:#1A56A8;
  --string:#3B7A1E; --number:#A8510B; --comment:#74808C;)";
constexpr const char* dark_page = R"( --desk:#14181C; --card:#1A1F25; --rule:#2C333B; --tint:#20262D; --link:#7DB7F0;
  --sign:#E5645A; --exponent:#3FAE6E; --mantissa:#5B93EE; --key:#C792EA; --type:#7FC8C2; --call:#82AAFF;
  --string:#A5D37F; --number:#F0A870; --comment:#7F8B97;)";

constexpr const char* rules = R"(
* { box-sizing:border-box; }
html { scroll-behavior:smooth; -webkit-text-size-adjust:100%; }
body { margin:0; background:var(--desk); color:var(--ink); font-size:17px; line-height:1.62;
  font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","Noto Sans","DejaVu Sans",sans-serif; }
main { max-width:866px; margin:0 auto; padding:0 24px 72px; }
a { color:var(--link); text-decoration:none; } a:hover { text-decoration:underline; }
code, pre, .bits i { font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace; }
p code, li code, td code, h1 code, h2 code, summary code { font-size:.86em; background:var(--tint);
  border-radius:4px; padding:.12em .36em; }
sup, sub { font-size:.72em; line-height:0; }
.math {
  font-family:"STIX Two Text",Cambria,"Latin Modern Roman",Georgia,"Times New Roman","DejaVu Serif",serif;
  white-space:nowrap; font-size:1.04em; }
.math i { font-style:italic; padding-right:.04em; } .math .o { margin:0 .24em; }
  .math sup .o, .math sub .o { margin:0 .06em; }
.math .thin { margin-right:.18em; } .math .word { margin:0 .14em; }
.math sup { vertical-align:.46em; } .math sub { vertical-align:-.26em; }
.math .scripts { display:inline-flex; flex-direction:column; vertical-align:middle; font-size:.72em;
  line-height:1.15; }
.math .scripts sup, .math .scripts sub { font-size:1em; vertical-align:baseline; line-height:1.15; }
.math .frac { display:inline-flex; flex-direction:column; vertical-align:middle; text-align:center; font-size:.8em;
  line-height:1.25;
  margin:0 .15em; position:relative; top:-.08em; }
.math .frac > .above { border-bottom:1px solid currentColor; padding:0 .25em .08em; }
  .math .frac > .below { padding:.08em .25em 0; }
.formula .math .frac { font-size:1em; line-height:1.35; }
.math .root .under { border-top:1px solid currentColor; padding:.05em .1em 0; }
.math .limits { display:inline-flex; flex-direction:column; align-items:center; vertical-align:middle;
  line-height:1.1; margin:0 .16em; }
.math .limits .above, .math .limits .below { font-size:.68em; line-height:1.3; }
.math .large { font-size:1.5em; line-height:1; }
  .math .fence { font-size:2.3em; font-weight:200; vertical-align:-.17em; line-height:.8; }
.formula { margin:18px 0 20px; overflow-x:auto; text-align:center; font-size:1.1em; }
.top { display:flex; justify-content:space-between; gap:1em; padding:22px 0 0; color:var(--muted); font-size:.84em; }
.top a { color:inherit; }
h1 { margin:44px 0 18px; font-size:2.2em; line-height:1.15; letter-spacing:-.02em; font-weight:700;
  text-wrap:balance; }
h1 .n { display:block; margin-bottom:6px; color:var(--muted); font-size:.42em; letter-spacing:.02em;
  font-weight:500; }
h2 { margin:52px 0 10px; font-size:1.42em; line-height:1.3; letter-spacing:-.01em; font-weight:650;
  scroll-margin-top:16px; }
h3 { margin:32px 0 8px; font-size:1.1em; font-weight:650; }
p, ul, ol { margin:0 0 14px; } ul, ol { padding-left:1.5em; } li { margin:0 0 6px; }
blockquote { margin:18px 0; padding:2px 0 2px 18px; border-left:3px solid var(--rule); color:var(--text); }
.code { margin:16px 0 0; padding:14px 16px; overflow-x:auto; background:var(--card); border:1px solid var(--rule);
  border-radius:10px; font-size:12.8px; line-height:1.55; tab-size:2; }
.code .k { color:var(--key); } .code .t { color:var(--type); } .code .f { color:var(--call); }
  .code .s { color:var(--string); }
.code .n { color:var(--number); } .code .c { color:var(--comment); font-style:italic; } .code .p { color:var(--key); }
.cell { margin:16px 0 26px; } .code + p, .code + ul, .code + ol { margin-top:16px; }
.out { margin:0 0 0 2px; padding:10px 0 0 16px; border-left:3px solid var(--rule); margin-top:12px; }
.out > :last-child { margin-bottom:0; }
.out pre { margin:0 0 10px; overflow-x:auto; font-size:13.2px; line-height:1.5; }
.said { margin:0 0 10px; }
.holds { margin:0 0 4px; padding-left:1.5em; position:relative; color:var(--text); font-size:.92em; line-height:1.5; }
.holds::before { content:"\2713"; position:absolute; left:.1em; color:var(--green); font-weight:700; }
.holds + .holds { margin-top:0; } .holds + :not(.holds), :not(.holds) + .holds { margin-top:10px; }
.bits { display:flex; flex-wrap:wrap; align-items:center; gap:4px 14px; margin:0 0 8px; }
.bits .row { display:flex; gap:1.5px; }
.bits i { width:19px; height:25px; font-size:12.5px; line-height:25px; text-align:center; color:#FFF;
  border-radius:3px; font-style:normal; }
.bits .row.many i { width:11px; font-size:10px; }
.bits .s { background:var(--sign); } .bits .e { background:var(--exponent); } .bits .m { background:var(--mantissa); }
.bits .s + .e, .bits .e + .m { margin-left:3px; }
.bits b { font-weight:600; font-variant-numeric:tabular-nums; } .bits code { color:var(--muted); font-size:.84em; }
figure { margin:6px 0 16px; break-inside:avoid; }
figcaption { margin-bottom:8px; font-weight:650; font-size:.98em; line-height:1.4; }
figcaption span { display:block; color:var(--muted); font-weight:400; font-size:.88em; }
.wide { overflow-x:auto; } .wide svg { display:block; width:100%; min-width:560px; height:auto; }
.caption { margin:0; font-weight:650; font-size:.94em; }
.note { margin:2px 0 10px; color:var(--muted); font-size:.88em; }
table { border-collapse:collapse; margin:6px 0 12px; font-size:.86em; line-height:1.4;
  font-variant-numeric:tabular-nums; }
th, td { padding:5px 18px 5px 0; text-align:left; vertical-align:top; }
th { color:var(--muted); font-weight:500; border-bottom:1px solid var(--axis); vertical-align:bottom; }
.out th, .out td { white-space:nowrap; }
td { border-bottom:1px solid var(--rule); } tbody tr:last-child td { border-bottom:0; }
th.r, td.r { text-align:right; padding:5px 6px 5px 16px; } .r + :not(.r) { padding-left:22px; }
  .unit { color:var(--muted); font-weight:400; }
details { margin:18px 0 24px; border:1px solid var(--rule); border-radius:10px; padding:0 18px; }
details[open] { padding-bottom:6px; }
summary { cursor:pointer; padding:11px 0; font-weight:600; } summary:hover { color:var(--link); }
details.source { margin:0; border:0; padding:0; } details.source[open] { padding:0; }
details.source summary { padding:2px 0; color:var(--muted); font-size:.82em; font-weight:400; }
details.source .code { margin-top:6px; }
.near { display:grid; grid-template-columns:1fr 1fr; gap:14px; margin:64px 0 22px; }
.near a { display:block; padding:14px 18px; border:1px solid var(--rule); border-radius:10px; color:var(--ink);
  font-weight:600; line-height:1.4; }
.near a:hover { border-color:var(--link); text-decoration:none; }
.near span { display:block; color:var(--muted); font-size:.82em; font-weight:400; }
  .near .next { text-align:right; grid-column:2; }
footer { color:var(--muted); font-size:.84em; } footer p { margin:0 0 6px; }
nav.toc { display:none; }
@media (min-width:1330px) {
  nav.toc { display:block; position:fixed; top:96px; left:calc(50% - 662px); width:205px; font-size:.82em;
  line-height:1.4; }
  nav.toc a { display:block; padding:5px 0 5px 12px; border-left:2px solid var(--rule); color:var(--muted); }
  nav.toc a:hover { color:var(--ink); border-left-color:var(--link); text-decoration:none; } }
@media (max-width:640px) { body { font-size:16px; } main { padding:0 16px 48px; }
  h1 { font-size:1.75em; margin-top:28px; } .near { grid-template-columns:1fr; } .near .next { grid-column:1; } }
)";

constexpr const char* print_rules = R"(
@media print {
  @page { margin:16mm 15mm; }
  * { print-color-adjust:exact; -webkit-print-color-adjust:exact; }
  body { font-size:10pt; line-height:1.45; } main { max-width:none; padding:0; } h1 { margin-top:0; }
  h2 { margin-top:20pt; }
  .top, .near, nav.toc { display:none; } a { color:inherit; } h2, h3, figcaption { break-after:avoid; }
  .code { font-size:8pt; white-space:pre-wrap; } .out pre { font-size:8pt; } .wide { overflow:visible; }
  .wide svg { min-width:0; }
  .cell, tr, .bits { break-inside:avoid; } details { border:0; padding:0; }
}
)";

}  // namespace

std::string lesson_style() { return narrow::report::style_sheet(light_page, dark_page, std::string(rules) + print_rules); }

}  // namespace lesson
