//! The picture of false verdicts in the README.

use super::sessions::{FALSE_RATIO_MAX, FalseVerdicts};

/// Pixels of a percent, the place of zero, and of the first bar.
const PERCENT_WIDTH: f64 = 3.6;
const ZERO_X: f64 = 330.0;
const FIRST_Y: usize = 61;
const ROW_HEIGHT: usize = 30;

/// Bars of false verdicts among `sessions` A/A sessions of each kind, as SVG.
pub(super) fn false_verdicts(found: &[FalseVerdicts], sessions: u32) -> String {
    let height = FIRST_Y + found.len() * ROW_HEIGHT + 37;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 {height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\" role=\"img\" \
         aria-label=\"False verdicts in {sessions} sessions whose arms are equal\">\n\
         <style>text{{fill:#222}}.m{{fill:#666}}@media(prefers-color-scheme:dark)\
         {{text{{fill:#ddd}}.m{{fill:#aaa}}}}</style>\n\
         <text x=\"10\" y=\"22\" font-size=\"15\" font-weight=\"600\">False verdicts among {sessions} \
         sessions whose arms are equal</text>\n\
         <text x=\"10\" y=\"41\" class=\"m\">a synthetic target with drift, correlated seconds, a \
         disturbance every 12 s, and stalls</text>\n"
    );
    let limit_x = ZERO_X + FALSE_RATIO_MAX * 100.0 * PERCENT_WIDTH;
    for (number, kind) in found.iter().enumerate() {
        let y = FIRST_Y + number * ROW_HEIGHT;
        let percent = f64::from(kind.count) / f64::from(sessions) * 100.0;
        let width = (percent * PERCENT_WIDTH).max(1.0);
        let color = if kind.is_bound { "#0072b2" } else { "#d55e00" };
        // Behind the bar and behind the line of the limit.
        let label_x = (ZERO_X + width).max(limit_x) + 6.0;
        svg.push_str(&format!(
            "<text x=\"320\" y=\"{text_y}\" text-anchor=\"end\">{name}</text>\n\
             <rect x=\"{ZERO_X}\" y=\"{y}\" width=\"{width:.1}\" height=\"18\" fill=\"{color}\"/>\n\
             <text x=\"{label_x:.1}\" y=\"{text_y}\">{percent}%</text>\n",
            text_y = y + 14,
            name = kind.name,
        ));
    }
    let end = FIRST_Y + found.len() * ROW_HEIGHT - 3;
    svg.push_str(&format!(
        "<line x1=\"{limit_x:.1}\" x2=\"{limit_x:.1}\" y1=\"56\" y2=\"{end}\" stroke=\"#888\" \
         stroke-dasharray=\"4 3\"/>\n\
         <text x=\"{limit_x:.1}\" y=\"{}\" class=\"m\">8%: the most that evenkeel allows itself</text>\n\
         </svg>\n",
        end + 18
    ));
    svg
}
