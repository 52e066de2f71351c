package tokenizer

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Invalid UTF-8 is replaced as in table 3-8 of the Unicode standard, chapter 3, and in all browsers.
func TestBrokenUTF8(t *testing.T) {
	for in, want := range map[string]string{
		"\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64": "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd",
		"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41":                 strings.Repeat("\uFFFD", 8) + "A",
		"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41":                 strings.Repeat("\uFFFD", 8) + "A",
		"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42":                 strings.Repeat("\uFFFD", 5) + "A\uFFFD\uFFFDB",
		"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41":                 strings.Repeat("\uFFFD", 4) + "A",
		"ok \uFFFD":                                            "ok \uFFFD",
		"end \xE2\x82":                                         "end \uFFFD",
	} {
		if got := ValidText(in); got != want {
			t.Errorf("%q: got %q, expected %q", in, got, want)
		}
	}
}

func TestStreamNeverSplitsACharacter(t *testing.T) {
	tok := small(t)
	ids := tok.Encode("é日😀 e\u0323\u0301!")
	stream := tok.NewStream(false)
	pushes, joined := 0, ""
	for _, id := range ids {
		text := stream.Push(id)
		if !utf8.ValidString(text) || strings.ContainsRune(text, utf8.RuneError) {
			t.Errorf("pushed %d: %q is not whole characters", id, text)
		}
		if text != "" {
			pushes++
		}
		joined += text
	}
	if rest := stream.Flush(); rest != "" || joined != tok.Decode(ids, false) {
		t.Errorf("streamed %q and then %q, expected %q", joined, rest, tok.Decode(ids, false))
	}
	if pushes < 3 {
		t.Errorf("the text came in %d parts: the stream holds back too much", pushes)
	}
}

func TestStreamOfAnyTokens(t *testing.T) {
	tok := small(t)
	r := newRand(3)
	for range 2000 {
		ids := make([]int32, r.IntN(12))
		for i := range ids {
			ids[i] = int32(r.IntN(tok.VocabSize()+20)) - 10
		}
		checkStream(t, tok, ids)
	}
}

func TestStreamUnfinished(t *testing.T) {
	tok := small(t)
	ids := tok.Encode("😀")
	stream := tok.NewStream(false)
	if text := stream.Push(ids[0]); text != "" {
		t.Fatalf("half a character came out as %q", text)
	}
	if text := stream.Flush(); text != "\uFFFD" {
		t.Errorf("Flush gave %q, expected one U+FFFD", text)
	}
	if text := stream.Flush(); text != "" {
		t.Errorf("a second Flush gave %q", text)
	}
}

func TestDecodeSkipsControlTokensOnly(t *testing.T) {
	tok := small(t)
	ids := tok.EncodeSpecial("<|im_start|><think>a</think>b<|im_end|>")
	ids = append(ids, -1, 100000) // ids without a token decode to nothing
	if got := tok.Decode(ids, true); got != "<think>a</think>b" {
		t.Errorf("without control tokens: %q", got)
	}
	if got := tok.Decode(ids, false); got != "<|im_start|><think>a</think>b<|im_end|>" {
		t.Errorf("with all tokens: %q", got)
	}
}

func TestEncodeReplacesWhatIsNotUTF8(t *testing.T) {
	tok := small(t)
	if got, want := tok.Encode("a\xe2\x82b"), tok.Encode("a\uFFFDb"); !slices.Equal(got, want) {
		t.Errorf("got %v, expected %v", got, want)
	}
}

func TestPlainNFC(t *testing.T) {
	r := newRand(4)
	pool := []rune("aeZ é\u0301\u0327\u0323\u0345\u0344\u0338\u0f71\u0f72\u0f73\u09c7\u09be\u1100\u1161\u11a8각한\u212b\u0958\ufb1d\u1fa7日")
	for range 5000 {
		text := make([]rune, r.IntN(20))
		for i := range text {
			text[i] = pool[r.IntN(len(pool))]
		}
		if got, want := plainNFC(string(text)), norm.NFC.String(string(text)); got != want {
			t.Fatalf("%+q: got %+q, expected %+q", string(text), got, want)
		}
	}
}

// The normalizer of golang.org/x/text inserts U+034F into a long run of marks; NFC does not.
func TestNFCOfManyMarks(t *testing.T) {
	for text, want := range map[string]string{
		"e" + strings.Repeat("\u0301", 40):             "\u00e9" + strings.Repeat("\u0301", 39),
		"\u1fa7" + strings.Repeat("\u0344", 15):        "\u1fa7" + strings.Repeat("\u0308\u0301", 15),
		"a" + strings.Repeat("\u0301\u0323", 20) + "b": "\u1ea1" + strings.Repeat("\u0323", 19) + strings.Repeat("\u0301", 20) + "b",
		"\u0f40" + strings.Repeat("\u0f73", 20) + "e\u0301": "\u0f40" +
			strings.Repeat("\u0f71", 20) + strings.Repeat("\u0f72", 20) + "\u00e9",
	} {
		if got := nfc(text); got != want {
			t.Errorf("%+q:\n got %+q\nwant %+q", text, got, want)
		}
	}
	if norm.NFC.String("e"+strings.Repeat("\u0301", 40)) == "\u00e9"+strings.Repeat("\u0301", 39) {
		t.Error("golang.org/x/text leaves long runs of marks alone now: drop plainNFC")
	}
}

func TestSplit(t *testing.T) {
	for _, tc := range []struct {
		pattern, text, want string
	}{
		{qwenPattern, "it's 12 x", "it|'s| |1|2| x"},
		{llama3Pattern, "it's 12345 x", "it|'s| |123|45| x"},
		{gpt2Pattern, "it's IT'S 12345 x", "it|'s| IT|'|S| 12345| x"},
		{qwenPattern, "IT'S", "IT|'S"},
		{qwenPattern, "IT'Sx we'LLx", "IT|'S|x| we|'LL|x"},
		{qwenPattern, "a  b\n\n  c", "a| | b|\n\n| | c"},
		{gpt2Pattern, "a  b\n\n  c", "a| | b|\n\n | c"},
		{qwenPattern, "x!!\n\ny \n ", "x|!!\n\n|y| \n| "},
		{`\p{N}{2}`, "a1234b5", "a|12|34|b5"},
		{`,`, ",a,,b", ",|a|,|,|b"},
		{`x*`, "axb", "a|x|b"},
	} {
		split, err := newSplitter(tc.pattern)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		split(tc.text, func(piece string) { got = append(got, piece) })
		if strings.Join(got, "|") != tc.want {
			t.Errorf("%s on %q: got %q, expected %q", tc.pattern, tc.text, strings.Join(got, "|"), tc.want)
		}
	}
	for each, want := range map[bool]string{false: "a|12| |3", true: "a|1|2| |3"} {
		split, err := (&part{Type: "Digits", IndividualDigits: each}).splitter("")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		split("a12 3", func(piece string) { got = append(got, piece) })
		if strings.Join(got, "|") != want {
			t.Errorf("digits, each: %t: got %q, expected %q", each, got, want)
		}
	}
}
