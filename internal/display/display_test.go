package display

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Invisible characters get a symbol, except joiners where a script needs them.
func TestVisible(t *testing.T) {
	for text, shown := range map[string]string{
		"print(1)\n\tend":                  "print(1)\n\tend",
		"שלום 数 👍🏽":                        "שלום 数 👍🏽",
		"a\x00\x1b[31m\x7f":                "a␀␛[31m⟨U+007F⟩",
		"a\u202egpj\u2066":                 "a⟨U+202E⟩gpj⟨U+2066⟩",
		"a\u00a0b\u2003c":                  "a b c",
		"\U0001f469\u200d\U0001f467":       "\U0001f469\u200d\U0001f467",
		"\u0645\u06cc\u200c\u0634":         "\u0645\u06cc\u200c\u0634",
		"\u2764\ufe0f\u200d\U0001f525":     "\u2764\ufe0f\u200d\U0001f525",
		"pass\u200dword user\u200c":        "pass⟨U+200D⟩word user⟨U+200C⟩",
		"\u0645\u200c\u200c\u0634\u200d":   "\u0645⟨U+200C⟩⟨U+200C⟩\u0634⟨U+200D⟩",
		"\u200d\U0001f469":                 "⟨U+200D⟩\U0001f469",
		"bad \xff\u200d\U0001f469 \ufffe.": "bad \ufffd⟨U+200D⟩\U0001f469 ⟨U+FFFE⟩.",
	} {
		require.Equal(t, shown, Visible(text), "%+q", text)
	}
}

// A path is shown on one line, whatever its name contains.
func TestLine(t *testing.T) { require.Equal(t, "a␛b␊c␉d", Line("a\x1bb\nc\td")) }

// colorVision maps red, green and blue light to what people see with all cones, and with one of the three kinds missing or weak.
var colorVision = map[string][3][3]float64{
	"all":    {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protan": {{0.152, 1.053, -0.205}, {0.115, 0.786, 0.099}, {-0.004, -0.048, 1.052}},
	"deutan": {{0.367, 0.861, -0.228}, {0.280, 0.673, 0.047}, {-0.012, 0.043, 0.969}},
	"tritan": {{1.256, -0.077, -0.179}, {-0.078, 0.931, 0.148}, {0.005, 0.691, 0.304}},
}

// perceived is a color in Oklab, in which distances are perceptual.
func perceived(t *testing.T, color string, by [3][3]float64) (lab [3]float64) {
	n, err := strconv.ParseUint(strings.TrimPrefix(color, "#"), 16, 32)
	require.NoError(t, err)
	var light, here [3]float64
	for i := range light {
		v := float64(n>>(16-8*i)&255) / 255
		light[i] = v / 12.92
		if v > 0.04045 {
			light[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	times := func(m [3][3]float64, v [3]float64) (out [3]float64) {
		for i, row := range m {
			out[i] = row[0]*v[0] + row[1]*v[1] + row[2]*v[2]
		}
		return out
	}
	for i, v := range times([3][3]float64{{0.4122, 0.5363, 0.0514}, {0.2119, 0.6807, 0.1074}, {0.0883, 0.2817, 0.6300}}, times(by, light)) {
		here[i] = math.Cbrt(max(v, 0))
	}
	return times([3][3]float64{{0.2105, 0.7936, -0.0041}, {1.9780, -2.4286, 0.4506}, {0.0259, 0.7828, -0.8087}}, here)
}

// The nine colors of curves can be distinguished in light and dark mode, also by the color-blind.
func TestColorsCanBeToldApart(t *testing.T) {
	light, dark, ok := strings.Cut(Style, "@media")
	require.True(t, ok)
	for _, style := range []string{light, dark[:strings.Index(dark, ".c1 {")]} {
		colors := regexp.MustCompile(`--c\d: (#[0-9a-f]{6})`).FindAllStringSubmatch(style, -1)
		require.Len(t, colors, 9)
		for who, by := range colorVision {
			for i, a := range colors {
				for _, b := range colors[:i] {
					one, other := perceived(t, a[1], by), perceived(t, b[1], by)
					apart := math.Sqrt(math.Pow(one[0]-other[0], 2) + math.Pow(one[1]-other[1], 2) + math.Pow(one[2]-other[2], 2))
					require.Greater(t, apart, 0.065, "%s and %s, %s", a[0], b[0], who)
				}
			}
		}
	}
}
