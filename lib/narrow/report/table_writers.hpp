// A table as a file or as text: CSV and JSON for programs, Markdown and aligned text for people.
#pragma once

#include <string>

#include "narrow/report/table.hpp"

namespace narrow::report {

// Comment lines (#) say the version, the source and the parameters; then one line of headings and one a row.
std::string to_csv(const Table& table, const std::string& source);

std::string to_markdown(const Table& table);

// Columns aligned by spaces: numbers to the right, texts to the left.
std::string to_text(const Table& table);

// {name, title, note, columns: [{name, unit}], rows: [[..]]} with numbers as numbers, null where there is none, and
// "inf", "-inf", "nan" as texts.
std::string to_json(const Table& table);

// A text in quotes as JSON has it, of the same value and visible(); U+FFFD for what is no UTF-8.
std::string json_string(std::string_view text);

}  // namespace narrow::report
