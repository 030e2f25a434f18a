// The colours of pictures and pages, once for light and once for dark paper; everything else names them by role.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace narrow::report {

// The first ten are those of PlotColour without `automatic`, in the same order; then what is not data.
enum class Role : std::uint8_t {
  blue,
  orange,
  green,
  vermilion,
  sky,
  purple,
  yellow,
  grey,
  ink,
  text,   // numbers at axes, legends
  muted,  // labels of axes, subtitles
  axis,
  grid,
  paper,
};

struct RoleColour {
  const char* name;     // of the variable in style sheets: --blue
  std::uint32_t light;  // 0xRRGGBB on light paper
  std::uint32_t dark;   // on dark paper
};

// Okabe and Ito's set. Their yellow has no contrast on white and is darkened; on dark paper the dark ones are lifted,
// each by about the same lightness, so that neighbours in the list stay apart in both.
inline constexpr std::array<RoleColour, 14> role_colours{{
    {"blue", 0x0072B2, 0x4C9BE0},
    {"orange", 0xE69F00, 0xF0B030},
    {"green", 0x009E73, 0x2EC49A},
    {"vermilion", 0xD55E00, 0xF47B3C},
    {"sky", 0x56B4E9, 0x9ADBFF},
    {"purple", 0xB8528C, 0xE08FBE},
    {"yellow", 0xA89400, 0xE6D84A},
    {"grey", 0x8A919B, 0x8D96A1},
    {"ink", 0x20252B, 0xE4E8ED},
    {"text", 0x3B424A, 0xC3CAD2},
    {"muted", 0x656D77, 0x98A2AD},
    {"axis", 0xA4ABB3, 0x59626C},
    {"grid", 0xE6E9ED, 0x2C333B},
    {"paper", 0xFFFFFF, 0x171B20},
}};

constexpr const RoleColour& colour_of(Role role) { return role_colours[static_cast<std::size_t>(role)]; }

}  // namespace narrow::report
