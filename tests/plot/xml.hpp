// A strict reader of the XML that pictures are: elements closed in order, known entities, no character that XML
// forbids.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace test {

// The text of all elements; std::runtime_error where it is not well-formed. Attributes are in either quotes, and there
// are no CDATA sections.
inline std::string xml_text(const std::string& xml) {
  const auto fail = [&](std::size_t at) { throw std::runtime_error("no XML: " + xml.substr(at, 60)); };
  std::vector<std::string> open;
  std::string text;
  for (std::size_t i = 0; i < xml.size(); ++i) {
    const auto c = static_cast<unsigned char>(xml[i]);
    if (c < 0x20 && c != '\n' && c != '\t' && c != '\r') fail(i);
    if (c == 0xEF && xml.compare(i, 2, "\xEF\xBF") == 0 && static_cast<unsigned char>(xml[i + 2]) >= 0xBE) fail(i);
    if (c == '>' && i >= 2 && xml.compare(i - 2, 2, "]]") == 0) fail(i - 2);
    if (c == '&') {
      const std::string entity = xml.substr(i + 1, xml.find(';', i) - i - 1);
      if (entity == "lt") text += '<';
      else if (entity == "gt") text += '>';
      else if (entity == "amp") text += '&';
      else if (entity == "quot") text += '"';
      else fail(i);
      i += entity.size() + 1;
    } else if (c != '<') {
      text += xml[i];
    } else if (xml.compare(i, 4, "<!--") == 0) {
      i = xml.find("-->", i) + 2;
    } else {
      std::size_t end = i + 1;
      for (char quoted = 0; end < xml.size() && (quoted != 0 || xml[end] != '>'); ++end) {
        if (xml[end] == '<') fail(i);
        if (quoted == 0 && (xml[end] == '"' || xml[end] == '\'')) quoted = xml[end];
        else if (xml[end] == quoted) quoted = 0;
      }
      if (end >= xml.size()) fail(i);
      const std::string tag = xml.substr(i + 1, end - i - 1);
      const std::string name = tag.substr(0, tag.find_first_of(" \n\t"));
      if (tag[0] == '/') {
        if (open.empty() || open.back() != name.substr(1)) fail(i);
        open.pop_back();
      } else if (tag[0] != '?' && tag[0] != '!' && tag.back() != '/') {
        open.push_back(name);
      }
      i = end;
    }
  }
  if (!open.empty()) fail(0);
  return text;
}

}  // namespace test
