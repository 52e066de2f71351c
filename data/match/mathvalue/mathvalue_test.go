package mathvalue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-7879b91d/grpo/internal/cputime"
)

func TestEqualValues(t *testing.T) {
	for _, pair := range [][2]string{
		{"1/2", "0.5"}, {`\frac{1}{2}`, ".5"}, {`\frac12`, "1/2"}, {`\dfrac{3}{-4}`, "-0.75"}, {`50\%`, "1/2"}, {`50\%`, "50"},
		{"50%", `50.0\%`},
		{"1,234", "1234"}, {"$1,234.50", "1234.5"}, {"€5", "5"}, {"-£5", "-5"}, {`3\frac{1}{2}`, "7/2"}, {"3 1/2", "3.5"},
		{"1e3", "1000"}, {"10^{-2}", "0.01"},
		{"+7", "7"}, {"--7", "7"}, {"7.", "7"}, {"007", "7"}, {"-0", "0"}, {"2^{10}", "1024"}, {"5!", "120"}, {`\binom{5}{2}`, "10"},
		{`\sqrt{16}`, "4"}, {`\sqrt{2}`, "2^{1/2}"}, {`\frac{1}{\sqrt{2}}`, `\frac{\sqrt{2}}{2}`},
		{`\sqrt[3]{-8}`, "-2"}, {`2\sqrt3`, `\sqrt{12}`},
		{`\sqrt{\frac{9}{4}}`, "1.5"}, {`\frac{\pi}{2}`, "π/2"}, {`\pi r^2`, `r^2 \cdot \pi`},
		{`\log_2 8`, "3"}, {`\ln e`, "1"}, {`\sin(\pi/6)`, "1/2"},
		{`\sin^2 x + \cos^2 x`, "1"}, {"2(x+1)", "2x+2"}, {"(x-1)(x+1)", "x^2-1"}, {`\frac{x^2-1}{x-1}`, "x+1"}, {"xy", "yx"},
		{"x=5", "5"}, {"f(x) = 2x", "2x"}, {"x = 10/4 = 5/2", "2.5"}, {"x_1 + x_2", "x_2+x_1"}, {"|-3|", "3"}, {`\lfloor 2.7 \rfloor`, "2"},
		{`\{1, 2, 3\}`, `\{3,2,1\}`}, {`\{1,1\}`, `\{1\}`}, {"3,3,4", "4,3,3"}, {`\{1,1,2\}`, "1,2"}, {"1, 2", "2, 1"},
		{"x=1, x=2", "2,1"}, {`1 \text{ or } 2`, "2,1"}, {`\emptyset`, `\{\}`},
		{`1 \pm 2`, "3, -1"}, {`\{1\pm\sqrt2\}`, `\{1-\sqrt2, 1+\sqrt2\}`}, {"(1, 2)", `\left(1, \frac{4}{2}\right)`}, {"[0, 1)", `[0,1.0)`},
		{`(-\infty, 2]`, `x \le 2`}, {"2 < x", `(2,\infty)`}, {`1 \le x < 3`, "[1,3)"}, {"3 > x ≥ 1", "[1,3)"}, {`x \in [1, 3)`, "[1,3)"},
		{`(-\infty,-1)\cup(1,\infty)`, `(1,\infty) \cup (-\infty,-1)`}, {`\mathbb{R}`, `(-\infty,\infty)`},
		{`\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}`, `\begin{bmatrix}1&\frac{4}{2}\\3&4\end{bmatrix}`},
		{"3+4i", "4i + 3"}, {"(1+i)^2", "2i"},
		{`5 \text{ cm}`, "5"}, {`90^\circ`, "90"}, {`\text{Yes}`, "yes"}, {"No.", "no"}, {"no!", "No"},
		{"...yes!?", "Yes"}, {"5!.", "120"}, {"n!", "n !"},
		{"да!", "Да"}, {`\text{(A)}`, "(A)"}, {"The  cat", "the cat"}, {`\text{June }20`, `\text{June 20}`},
		{"y^2 = 4x", "y^2=4x"}, {"4x = y^2", "y^2=4x"}, {"x^2+y^2=25", "x^2+y^2-25=0"},
		{"2x-y+1=0", "y-2x-1=0"}, {"2x-y+1=0", "4x+2=2y+0x"}, {`\frac{x^2}{4}+\frac{y^2}{9}=1`, "9x^2+4y^2=36"},
		{"48 + 24 = 72", "72"}, {"72 = 48 + 24", "72"},
		{`\text{Area} = 25`, "25"}, {`\text{Total cost} = 5\text{ dollars}`, "5"}, {"f'(x) = 2x", "2x"}, {`\frac{dy}{dx} = 2x`, "2x"},
		{`\boxed{3}`, "3"}, {"1/3", `\frac{10}{30}`}, {"3/0.5", "6"}, {`e^{\ln 2}`, "2"},
		{"2^{2024}", "4^{1012}"}, {`\frac{2^{2024} - 1}{3}`, "(4^{1012}-1)/3"}, {"2023^{2024}+1", "1 + 2023^{2024}"},
		{"xy^2", "y^2x"}, {"2xy^{2}", "2 x y^2"}, {`\frac ab`, "a/b"}, {`12\text{ cm}^2`, "12"}, {`12 \mathrm{~cm}^{3}`, "12"},
		{`\sin 2x`, `\sin(2x)`}, {`\cos 2\theta`, `\cos(2\theta)`}, {`\sin 2x\cos x`, `\cos(x)\sin(2x)`}, {`\sin xy`, `\sin(xy)`},
		{`\tan^{-1} 1`, `\pi/4`}, {`\sin^{-1}(x)`, `\arcsin x`}, {"1{,}000", "1000"}, {`\langle 1,2\rangle`, "(1,2)"},
		{`1\,000\,000`, "10^6"}, {`\$12\,345.5`, "12,345.5"}, {"`72`", "72"}, {"`x + 1`.", "1+x"},
		{"5 = x", "5"}, {"2x+1 = y", "y = 2x + 1"}, {"x = 1 or x = 2", "1, 2"},
		{"1, 2, and 3", "3,2,1"}, {`\operatorname{sin}^2 x`, `\sin^2(x)`}, {`e^x\ln 2`, `\ln 2 e^x`},
		{`-3\frac12`, "-3.5"}, {"-3 1/2", "-7/2"}, {`5\frac12\%`, "0.055"}, {"5 1/2 %", "5.5"},
		{`(3)\frac12`, "1.5"}, {"(13)(4)", "52"}, {"2(3)", "6"}, {`0.\overline{3}`, "1/3"},
		{`.\overline{3}`, "1/3"}, {`-0.1\bar6`, `-\frac16`}, {"4210_{5}", "4210_5"}, {"3 : 2", "3:2"},
		{`n\equiv3\pmod4`, `n \equiv 3 \pmod{4}`}, {`x\neq2`, "x ≠ 2"},
		{`1 \leqslant x \leqslant 2`, "[1,2]"}, {`\exp(-40)`, `\frac{1}{e^{40}}`}, {`\sqrt2\sqrt3 - \sqrt6`, "0"},
		{"x=3, y=4", "y=4, x=3"}, {"x=3, y=4", "3, 4"}, {"x=3, y=3", "3, 3"}, {"(x, y) = (3, 4)", "(3,4)"}, {`\sin 30^\circ`, "0.5"},
		{`2(\cos 60^\circ + i \sin 60°)`, `1+i\sqrt3`}, {`90^{\circ}`, "90"}, {`x=\pm 2, y=1`, "y=1, x=-2, x=2"},
		{"-(3+4i)", "-3-4i"}, {"(3+4i)(3-4i)", "25"}, {`\sqrt{-4}`, "2i"}, {`\sqrt{0}`, "0"}, {"1e100", "10^{100}"}, {"0.(3)", "1/3"},
		{"2.(45)", "27/11"}, {"ab", "ba"}, {"6:00 PM", `6\text{ p.m.}`}, {"06:05 am", "6:05 A.M."}, {"6:00 PM", "6:00"},
		{`x<1 \text{ or } x>3`, `(-\infty,1)\cup(3,\infty)`},
		{"x<1, x>3", `(-\infty,1)\cup(3,\infty)`}, {"(0,1), [2,3)", `[2,3)\cup(0,1)`}, {`5\text{ and }6`, "5,6"},
		{`5\text{ or }6`, "6,5"}, {"3(4)", "12"},
		{`e^{x^2}|x|`, `|x|e^{|x|^2}`}, {"1e-100", "10^{-100}"},
		{`\frac{\pi}{10^{20}} + \sqrt2 - \sqrt2`, `\frac{\pi}{10^{20}}`},
	} {
		assert.True(t, Equal(pair[0], pair[1]), "%q and %q", pair[0], pair[1])
		assert.True(t, Equal(pair[1], pair[0]), "%q and %q", pair[1], pair[0])
	}
}

// Unicode symbols instead of LaTeX commands.
func TestSigns(t *testing.T) {
	for _, pair := range [][2]string{
		{"½", "1/2"}, {"1½", "1.5"}, {"−2⅔", "-8/3"}, {"4^½", "2"}, {"½x", "x/2"}, {"x²+1", "x^2+1"}, {"x⁻¹⁰", "x^{-10}"}, {"√12", `2\sqrt3`},
		{"2√(3)", `\sqrt{12}`}, {"∛8", "2"}, {"√x", "x^{1/2}"}, {"101₂", "101_2"}, {"x₁₂", "x_{12}"}, {"2θ", `2\theta`}, {"1.5×10³", "1500"},
		{"1.5 x 10^3", "1500"}, {"3⋅4", "12"}, {"1⁄2", "0.5"}, {"‑5", "-5"}, {"４２．５", "42.5"}, {"（1，2）", "(1,2)"}, {"90º", "90"},
		{"12 345", "12345"}, {"-1 234 567.5", "-1234567.5"}, {"12\u202f345", "12345"}, {"12\u00a0345", "12345"}, {"12~345", "12345"},
		{"≈ 3.14", "3.14"}, {`\approx 3.14`, "3.14"}, {"50 percent", "50%"}, {"50 percent", "0.5"}, {"12 cm²", "12 cm^2"},
		{`12\text{ cm²}`, "12"},
	} {
		assert.True(t, Equal(pair[0], pair[1]), "%q and %q", pair[0], pair[1])
		assert.True(t, Equal(pair[1], pair[0]), "%q and %q", pair[1], pair[0])
	}
	for _, pair := range [][2]string{
		{"1½", "1/2"}, {"1½", "1"}, {"x²", "2x"}, {"x²", "x"}, {"√12", "2"}, {"101₂", "101"}, {"θ", "φ"}, {"1 23", "123"},
		{"1234 567", "1234567"},
		{"3 100/200", "3100/200"}, {"1 234, 5", "12345"}, {"3.14 ≈ 3", "3"}, {"50 percent", "5"}, {"x 10^3", "1000"}, {"５", "6"},
	} {
		assert.False(t, Equal(pair[0], pair[1]), "%q and %q", pair[0], pair[1])
		assert.False(t, Equal(pair[1], pair[0]), "%q and %q", pair[1], pair[0])
	}
}

// Functions with steps or kinks are compared at these.
func TestFunctionsOfPieces(t *testing.T) {
	for _, pair := range [][2]string{
		{"|x|", `\sqrt{x^2}`}, {"|x-y|", "|y-x|"}, {"|x|^2", "x^2"}, {`\ln|x|+C`, `C+\ln |x|`},
		{`\lceil n/2 \rceil`, `\lfloor (n+1)/2 \rfloor`},
		{`\lfloor -x \rfloor`, `-\lceil x \rceil`}, {`\max(x,y)`, `\frac{x+y+|x-y|}{2}`}, {`|x||y|`, "|xy|"}, {`\lfloor n \rfloor`, "n"},
		{`\frac{1}{|n|}+\frac{1}{|n-1|}`, `|\frac1n|+|\frac{1}{1-n}|`},
		{`e^{-|x|}`, `\frac{1}{e^{|x|}}`}, {`\ln|x+1|-\ln|x-1|`, `\ln|\frac{x+1}{x-1}|`},
	} {
		assert.True(t, Equal(pair[0], pair[1]), "%q and %q", pair[0], pair[1])
		assert.True(t, Equal(pair[1], pair[0]), "%q and %q", pair[1], pair[0])
	}
	different := [][2]string{
		{"|x|", "x"}, {"|xy|", "xy"}, {"min(x,3)", "x"}, {"max(x,3)", "3"}, {"max(x,100)", "100"}, {`\lfloor x \rfloor`, "x"},
		{`\lceil x/2 \rceil`, `\lfloor (x+1)/2 \rfloor`}, {`\lfloor n/2 \rfloor`, "n/2"}, {`\ln|x|`, `\ln x`},
		{`\lfloor x/1000 \rfloor`, "0"},
		{`|1/0|`, `|2/0|`},
	}
	for c := 'a'; c <= 'z'; c++ {
		if c != 'e' && c != 'i' {
			different = append(different, [2]string{"|" + string(c) + "|", string(c)}, [2]string{"floor(" + string(c) + ")", "1"},
				[2]string{"floor(" + string(c) + ")", "0"}, [2]string{"ceil(" + string(c) + ")", "2"})
		}
	}
	for _, pair := range different {
		assert.False(t, Equal(pair[0], pair[1]), "%q and %q", pair[0], pair[1])
		assert.False(t, Equal(pair[1], pair[0]), "%q and %q", pair[1], pair[0])
	}
}

// Words in \text and letters in another font count as a unit only where one is possible, and only if they do not change the number.
func TestWordsAndLettersInText(t *testing.T) {
	for _, pair := range [][2]string{
		{`3+4\mathrm{i}`, "3+4i"}, {`3\mathrm{e}^2`, "3e^2"}, {`2\mathbf{i}+3\mathbf{j}`, `3\mathbf{j}+2\mathbf{i}`},
		{`\text{A}, \text{B}`, "B, A"}, {`\textbf{(B)}\ 5`, "5"}, {`5\,\text{m/s}`, "5"}, {`2\sqrt{13}\text{ cm}`, `2\sqrt{13}`},
		{`9\pi \text{ cm}^2`, `9\pi`}, {`5\text{ cm}, 6\text{ cm}`, "5,6"}, {`8\text{ (square inches)}`, "8"}, {`50\text{ percent}`, "0.5"},
		{`25^\circ\text{C}`, "25"}, {`\text{18 cm}`, "18 cm"}, {`5\text{ million}`, "5 million"}, {`\mathrm{P}(A)=0.5`, "0.5"},
	} {
		assert.True(t, Equal(pair[0], pair[1]), "%q and %q", pair[0], pair[1])
		assert.True(t, Equal(pair[1], pair[0]), "%q and %q", pair[1], pair[0])
	}
	for _, pair := range [][2]string{
		{`3+4\mathrm{i}`, "7"}, {`3\mathrm{e}^2`, "3"}, {`2\mathbf{i}+3\mathbf{j}`, `3\mathbf{i}+2\mathbf{j}`},
		{`2\mathbf{i}+3\mathbf{j}`, "5"},
		{`\text{A}, \text{B}`, `\text{C}, \text{D}`}, {`\mathbf{A}\mathbf{B}`, `\mathbf{C}\mathbf{D}`},
		{`\text{A}\text{B}`, `\text{A}\text{C}`},
		{`x = \text{blue}`, `x = \text{red}`}, {`5\text{ million}`, "5"}, {`5\text{ dozen}`, "5"}, {`5\text{ or 6}`, "5"},
		{`18\text{ less}`, "18"},
		{`2\text{N}_2\text{O}`, `2\text{H}_2\text{O}`}, {`x^2\text{ if }x>0`, "x^2"}, {`\mathrm{P}(A)`, "A"}, {`5\mathrm{x}`, "5"},
	} {
		assert.False(t, Equal(pair[0], pair[1]), "%q and %q", pair[0], pair[1])
		assert.False(t, Equal(pair[1], pair[0]), "%q and %q", pair[1], pair[0])
	}
}

func TestDifferentValues(t *testing.T) {
	for _, pair := range [][2]string{
		{"0.333", "1/3"}, {"3.14", `\pi`}, {"1", "2"}, {"", "0"}, {"1,2", "12"}, {"(1,2)", "(2,1)"}, {"(1,2)", "[1,2]"}, {"{1,2}", "(1,2)"},
		{`\{1,2\}`, `\{1,2,3\}`}, {"x", "y"}, {"x+1", "x"}, {"on", "no"},
		{"yes", "sey"}, {"2x=4", "4"}, {"12", "1 2"}, {"1/0", "2/0"}, {"1/0", `\infty`},
		{`\infty`, `-\infty`}, {"x<2", "x≤2"}, {"x<2", "x>2"}, {`\sqrt{2}`, "1.41421356"}, {"2^{1/3}", "1.26"}, {"50%", "5"}, {"0.5", "50"},
		{"50%", "0.5%"}, {"5%", "0.05%"}, {"50%", "5000%"}, {`180^\circ`, `\pi^\circ`},
		{`\begin{pmatrix} 1 & 2 \end{pmatrix}`, `\begin{pmatrix} 2 & 1 \end{pmatrix}`},
		{"((((", "(((("[:3]}, {`\frac{1}{`, "1"}, {"1..2", "1.2"},
		{"123456789012345678901234567890", "123456789012345678901234567891"},
		{"10^400", "10^401"}, {"x_1", "x_2"}, {"A", "B"}, {"5 apples", "5 pears"},
		{"sin(x)", "cos(x)"}, {"1e999", "1e998"},
		{".5", "5"}, {".25", "25"}, {"$.5$", "5"}, {"5!", "5"}, {"n!", "n"}, {"(n+1)!", "(n+1)"}, {"5!.", "5."}, {"3!!", "3!"},
		{"xy^2", "x^2y^2"}, {`12\text{ cm}^2`, "144"}, {`\sin 2x`, `x\sin 2`}, {"5=3", "5"}, {"48+25=72", "72"}, {"48+25=72", "73"},
		{"Area = 25", "26"}, {"sin x = 1/2", "1/2"}, {"red = 3, blue = 4", "3,4"},
		{"2x=10", "x=5"}, {"x^2+y^2=25", "x^2-y^2=25"}, {"x^2+y^2=25", "x^2+y^2=24"},
		{"x+1=1+x", "y+1=1+y"}, {"xz+y=1", "y=1"}, {"x^2+y^2=1", "(x^2+y^2)^2=1"}, {`\cos^2 x + \sin^2 x=1`, "1"}, {"1 and 2", "12"},
		{"red and blue", "red"},
		{"10^400", `\infty`}, {"2^{2024}", "2^{2023}"}, {"2^{2024}", "2^{2024}+1"}, {"9^{99999}", "9^{99998}"}, {`\exp(1000)`, `\exp(2000)`},
		{`\cosh(1000)`, `\infty`}, {"9^{99999}", `\infty`},
		{`-3\frac12`, "-1.5"}, {`5\frac12\%`, "0.025"}, {"-1 234", "-234"}, {`12\,34`, "1234"}, {`1234\,567`, "1234567"},
		{`0.\overline{3}`, `0.\overline{6}`}, {`0.\overline{3}`, "0"}, {"4210_5", "4210_6"},
		{`n \equiv 2 \mod 6`, `n \equiv 3 \mod 4`}, {`f \circ g`, `g \circ f`}, {`A \setminus B`, `B \setminus A`},
		{"e^{-40}", "e^{-50}"}, {"e^{-40}", "0"}, {`\exp(-40)`, `\exp(-50)`}, {`\frac{\pi}{10^{20}}`, `\frac{2\pi}{10^{20}}`},
		{"x=3, y=4", "x=4, y=3"}, {"x > 1, y < 2", "y > 1, x < 2"}, {"(x, y) = (3, 4)", "(4,3)"},
		{`90^\circ`, "45"}, {"x=3, y=3", "x=3, y=4"}, {"1,1,2", "1,2"}, {"1,1,2", "1,2,2"},
		{"3+4i", "3-4i"}, {"1e1000", "1000e"}, {"6:00 AM", "6:00 PM"}, {"6:00 AM", `6:00\text{ PM}`}, {"6:30 AM", "6 AM"},
		{"6 AM", "7"}, {"x>1 and x<3", "x>1 or x<3"}, {`x<1 \text{ and } x>3`, `(-\infty,1)\cup(3,\infty)`},
		{`(0,1)\cup(2,3)`, "(0,1)"}, {`(0,1)\cup(2,3)`, "(2,3),(0,1],(0,1)"}, {`(0,1)\cup(2,3)`, "x<1, y>3"}, {"1e-1000", "1"},
		{"1e-1000", "0"}, {"0.(3)", "0"},
		{"e^{-1000}", "e^{-2000}"}, {`\exp(-1000)`, `\exp(-2000)`}, {"2^{3000.5}", "2^{4000.5}"}, {"e^{-1000}", "0"},
		{"(1,2)", "(1,2,3)"}, {`e^{-40}\pi`, `e^{-50}\pi`},
		{`\begin{pmatrix} 1 & 2 \end{pmatrix}`, `\begin{pmatrix} 1 & 2 & 3 \end{pmatrix}`},
		{"|x-1|", "x-1"}, {"|x-1|", "1-x"}, {"|y-1|", "y-1"}, {"|y-1|", "1-y"}, {"|x|", "-x"}, {"1 < x > 3", "(1,3)"}, {"1 > x < 3", "(1,3)"},
	} {
		assert.False(t, Equal(pair[0], pair[1]), "%q and %q", pair[0], pair[1])
		assert.False(t, Equal(pair[1], pair[0]), "%q and %q", pair[1], pair[0])
	}
}

// Answers written to keep a grader busy take no time.
func TestHostileAnswers(t *testing.T) {
	start := time.Now()
	for _, s := range []string{
		strings.Repeat("(", 1990), strings.Repeat("-", 1990) + "1",
		strings.Repeat("{", 900) + strings.Repeat("}", 900), "9^9^9^9^9^9", "2^{2^{2^{2^{30}}}}",
		strings.Repeat("9!", 500), "255!!!!!", strings.Repeat("1±", 900) + "1",
		strings.Repeat("(1,", 300) + "1" + strings.Repeat(")", 300), "1e999999999", "1e-999999999",
		strings.Repeat("1,", 990) + "1", strings.Repeat("x^9", 600), strings.Repeat(`\frac{1}{`, 190), strings.Repeat(`\sqrt`, 380) + "2",
		strings.Repeat("1+1%,", 390), strings.Repeat("|", 1999), "\\", "\x00", "\xff\xfe",
		strings.Repeat("∪", 600), "_", "x_", "x_{", `\begin{pmatrix`, `\\`,
		strings.Repeat("9", 1990) + "^{4095}",
		strings.Repeat("(9^{999})^", 190) + "9", `\sqrt[`, `\log_`, `\binom{1}`, strings.Repeat("1,234,", 300), strings.Repeat("1±1,", 400),
	} {
		Equal(s, "1")
		Equal("1", s)
		Equal(s, s+" ")
		Equal(s, s+",2")
	}
	assert.Less(t, time.Since(start), 10*time.Second)
}

// Nor do sets of large powers, whose elements are compared with each other: each is computed once.
func TestASetOfPowersTakesNoTime(t *testing.T) {
	var there, back []string
	for i := range 200 {
		there = append(there, fmt.Sprintf("%d^2000", 2+i))
		back = append(back, fmt.Sprintf("%d^2000", 201-i))
	}
	start := cputime.Used()
	assert.True(t, Equal(`\{`+strings.Join(there, ",")+`\}`, `\{`+strings.Join(back, ",")+`\}`))
	assert.Less(t, cputime.Used()-start, time.Second) // a twentieth of that; several times that without caching
}

// Nor do nested sets, whose elements are compared more than once per level, nor many ±, each of which doubles the number of values.
func TestWhatDoublesTakesNoTime(t *testing.T) {
	nested := func(inside string) string { return strings.Repeat(`\{2,`, 28) + inside + strings.Repeat(`\}`, 28) }
	many := strings.Repeat("1±", 60) + "|x|"
	start := cputime.Used()
	assert.True(t, Equal(`\{1,`+nested("3")+","+nested("3.0")+`\}`, `\{`+nested("3")+`,1\}`))
	assert.False(t, Equal(`\{1,`+nested("3")+","+nested("4")+`\}`, `\{`+nested("3")+`,1\}`))
	assert.False(t, Equal(many+"+1", many+"+2"))
	assert.Less(t, cputime.Used()-start, time.Second)
}

func FuzzEqual(f *testing.F) {
	for _, s := range []string{`\frac{1}{2}`, `\{1, 2\}`, "x^2-1", `\begin{pmatrix} 1 & 2 \end{pmatrix}`, "1 ± 2", "[0,1)", "50%"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if Equal(a, b) != Equal(b, a) {
			t.Errorf("%q and %q are equal one way only", a, b)
		}
		if a != "" && !Equal(a, a) {
			t.Errorf("%q is not equal to itself", a)
		}
	})
}
