package problem_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/evalhost/evalhost/services/internal/problem"
)

// Many of these take the parser by itself most of a minute, or a stack as deep as the text is long. The bound is generous
// for slow machines under the race detector.
func TestNoShapeOfTextKeepsTheReaderBusy(t *testing.T) {
	const size = 1 << 16
	fill := func(head, part string) string {
		return head + strings.Repeat(part, (size-len(head)-1)/len(part)) + "\n"
	}
	var keys strings.Builder
	keys.WriteString("overrideLimits:\n")
	for i := 0; keys.Len() < size-40; i++ {
		fmt.Fprintf(&keys, "  k%d: { timeMs: 1 }\n", i)
	}
	for name, text := range map[string]string{
		"open lists":            fill("a: ", "["),
		"open objects":          fill("", "{a: "),
		"closed lists":          "a: " + strings.Repeat("[", size/2-8) + strings.Repeat("]", size/2-8),
		"items within items":    fill("", "- "),
		"explicit keys":         fill("", "? "),
		"keys in one line":      fill("", "a: "),
		"keys without names":    fill("", ": "),
		"one key again":         fill("", "a: 1\n"),
		"different keys":        keys.String(),
		"anchors":               fill("", "&a "),
		"tags":                  fill("", "!!str "),
		"merge keys":            fill("", "<<: "),
		"documents":             fill("", "---\n"),
		"directives":            fill("", "%YAML 1.2\n"),
		"one long text":         fill("a: ", "x"),
		"one long quoted text":  fill("a: \"", "x"),
		"a text of many lines":  fill("a: b\n", "  x\n"),
		"quotes":                fill("", "'"),
		"comments":              fill("", "# x\n"),
		"empty lines":           fill("a:", "\n"),
		"spaces":                fill("a:", " "),
		"carriage returns":      fill("a:", "\r"),
		"tabs":                  fill("a:", "\t"),
		"a deep staircase":      staircase(350),
		"a comment a key":       fill("", "a: # x\n"),
		"a list of many groups": fill("groups:\n", "  - { group: 1, points: 1 }\n"),
		"a list of many texts":  fill("languages: [", "c,"),
		"backslashes":           fill("a: \"", `\\`),
		"pipes":                 fill("a: ", "|\n "),
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			_, err := problem.ParseConfig([]byte(text), "")
			wantRefused(t, err)
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func staircase(levels int) string {
	var b strings.Builder
	for i := range levels {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func wantRefused(t *testing.T, err error) {
	t.Helper()
	var fault *problem.Error
	if !errors.As(err, &fault) || !strings.HasPrefix(string(fault.Code), "package.") {
		t.Fatalf("got %v", err)
	}
}

func FuzzAnyConfigurationIsReadOrRefusedWithAPlace(f *testing.F) {
	for _, seed := range []string{
		fullConfig, plainConfig, overlaid, plainConfig + checkerLine, plainConfig + interactorLine,
		"a: &x [*x]\n", "{a: {b: [1, 'x', \"\\u0000\"]}}", "a: |\n  b\n", "- - - ? x", "\ufeff%YAML 1.2\n---\n", "a: >-\n\n b\n...\n",
		"a: {b:1, c\td: - e, 'f':g }\nh: i\n  - j: k\n", "\"a\\x41\" : [b , {,} ]# c\r\n\td: }e\n",
		"\ufeff1+u17\r\xab", "type: standard-io@1\nlimits: { timeMs: 1000, memoryBytes: 1 }\noverrideLimits:", // the place of what is missing
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		config, err := problem.ParseConfig([]byte(text), "")
		if err != nil {
			wantRefused(t, err)
			if strings.ContainsAny(err.Error(), "\x00\x1b\n\r") {
				t.Errorf("the message %q is no line of text", err)
			}
			wantPlaceIn(t, text, err)
			return
		}
		limits := config.Limits("c", "c11-gcc", config.Groups[0].Number)
		if !config.Type.Known() || limits.Time <= 0 || limits.Memory <= 0 {
			t.Errorf("%+v passed", config)
		}
	})
}

// wantPlaceIn wants an error's line to be one of the text, and its column to be in that line or just behind it.
func wantPlaceIn(t *testing.T, text string, err error) {
	t.Helper()
	var fault *problem.Error
	if !errors.As(err, &fault) || fault.Line < 1 || fault.Col < 1 {
		t.Fatalf("no place: %v", err)
	}
	lines := strings.Split(strings.ReplaceAll(strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n"), "\r", "\n"), "\n")
	if fault.Line > len(lines) || fault.Col > utf8.RuneCountInString(lines[fault.Line-1])+1 {
		t.Errorf("%q has no place %d:%d: %v", text, fault.Line, fault.Col, err)
	}
}

func FuzzAnyOverlayIsAppliedOrRefused(f *testing.F) {
	for _, seed := range []string{
		`{"limits":{"timeMs":500}}`, `{"groups":[{"group":1,"limits":{"timeMs":250}}]}`, `{"groups":[]}`, `{"checker":null}`,
		`[1,2]`, `{"a":{"b":[[[]]]}}`, `"x"`, `{"groups":[{"group":1e2}]}`,
	} {
		f.Add(seed)
	}
	base, err := problem.ParseConfig([]byte(overlaid), "")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		config, err := problem.ApplyOverlay(base, []byte(text))
		if err != nil {
			wantCode(t, err, problem.CodeOverlay)
			return
		}
		limits := config.Limits("c", "c11-gcc", 1)
		if config.Type != base.Type || limits.Time <= 0 || limits.Memory <= 0 {
			t.Errorf("%+v passed", config)
		}
	})
}
