# The comments of the headers as Doxygen wants them. What opens a file describes the file. A comment above declarations is
# about all of the paragraph below it, one at the end of a line about what stands on that line. A type's comment covers
# fields without one. Reads by indentation, as .clang-format leaves it.
function say(text) { gsub(/\n/, "\n" indent, text); print indent text }
function declare(   at, before) {
  # A line on which a declaration begins: its words, unless they stand right above it.
  at = match($0, /[;,{}] +\/\/ /)
  before = substr($0, 1, at)
  if (at && gsub(/"/, "", before) % 2 == 0) {
    say("/// " substr($0, at + RLENGTH))
    $0 = substr($0, 1, at)
  } else if (!fresh) {
    if (paragraph != "") say(paragraph)
    else if (in_type) say("/// \\brief See the type.")
  }
  fresh = 0
}
# The names that one line declares ("  double low = 0, high = 0;"): field[1..count], their type with its indentation in `kind`.
function fields(   i, c, depth, part) {
  count = 0
  if ($0 !~ /^  [A-Za-z_].*;$/ || $0 ~ /\)( const)?( noexcept)?;$/ || $0 ~ /^  (using|friend|static_assert)/) return 0
  for (i = 1; i < length($0); ++i) {
    c = substr($0, i, 1)
    if (c ~ /[(<{\[]/) depth++
    if (c ~ /[)>}\]]/) depth--
    if (c == "," && depth == 0) { field[++count] = part; part = "" } else part = part c
  }
  field[++count] = part
  if (count > 1) { match(field[1], /[A-Za-z_0-9]+( = .*|\{.*\}|\[.*\])?$/); kind = substr(field[1], 1, RSTART - 1); field[1] = substr(field[1], RSTART) }
  return count
}
function ended(   line) { line = $0; sub(/ +\/\/ .*/, "", line); return line ~ /[;{}]$/ }
FNR == 1 { top = 1; print "/// \\file" }
top && /^\/\// { sub(/^\/\//, "///"); print; next }
{ top = 0 }
/^[ \t]*$/ { paragraph = ""; fresh = 0; print; next }
hidden { print; if (/^};/) { hidden = 0; print "/// \\endcond" } next }
/^ *\/\// {
  text = $0; sub(/^ *\/\//, "///", text)
  paragraph = fresh ? paragraph "\n" text : text
  fresh = 1
  print text
  next
}
/^template .*>$/ { head = $0; next }
{ indent = ""; if (/^  /) indent = "  "; if (/^    /) indent = "    " }
head != "" {
  if (/^(struct|class) (std|Eigen|fmt)::/) { print "/// \\cond"; print head; print; head = ""; hidden = 1; fresh = 0; next }
  declare(); print head; head = ""
  if (/^(struct|class)/ && /{$/) { in_type = 1; outer = paragraph; paragraph = "" }
  whole = /[;{}]$/; print; next
}
/^(struct|class|enum class) .*{$/ { in_type = 0; declare(); in_type = 1; whole = 1; outer = paragraph; paragraph = ""; print; next }
/^};/ { in_type = 0; whole = 1; paragraph = outer; print; next }
/^}/ || /^#/ || /^namespace/ || /^using namespace/ || /^extern/ || /^ (public|private|protected):/ { whole = 1; print; next }
/^[^ ]/ { if (whole) declare(); fresh = 0; whole = /[;{}]$/; print; next }
in_type && /^  [^ }]/ {
  if (/^  (struct|class) .*{$/) nested = 1
  if (whole) {
    declare()
    if (fields() > 1) { for (i = 1; i <= count; ++i) print (i > 1 ? "  /// \\brief See above.\n" : "") kind field[i] ";"; next }
  }
  fresh = 0; whole = /[;{},]$/; print; next
}
in_type && nested && /^    [^ }]/ { print "    /// \\brief See the type." }
{ if (/^  }/) nested = 0; if (ended()) whole = 1; fresh = 0; print }
