package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAnOptionBecomesASectionOfThePage(t *testing.T) {
	page, err := render(strings.NewReader(`[
	  {"name": "services.evalhost.lanes", "type": "positive\n integer", "description": "How many.\n", "default": "1", "example": "4", "readOnly": false},
	  {"name": "services.evalhost.tags", "type": "list", "description": "Pools.", "default": "[\n]", "example": "as in ` + "`x`" + `", "readOnly": false},
	  {"name": "services.evalhost.rules", "type": "lines", "description": "For reading.", "default": "all", "example": "x", "readOnly": true}
	]`))
	if err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(page, "and not here.\n")
	want := "\n## `services.evalhost.lanes`\n\nHow many.\n\n- Type: positive integer\n- Default: `1`\n- Example: `4`\n" +
		"\n## `services.evalhost.tags`\n\nPools.\n\n- Type: list\n- Default:\n\n  ```nix\n  [\n  ]\n  ```\n- Example: as in `x`\n" +
		"\n## `services.evalhost.rules`\n\nFor reading.\n\n- Type: lines\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
}

func TestAnOptionThatSaysTooLittleIsRefused(t *testing.T) {
	const whole = `{"name": "n", "type": "t", "description": "d", "default": "x", "example": "e", "readOnly": false}`
	if _, err := render(strings.NewReader("[" + whole + "]")); err != nil {
		t.Fatalf("a whole one is refused: %v", err)
	}
	for name, list := range map[string]string{
		"no description": "[" + strings.Replace(whole, `"d"`, `""`, 1) + "]",
		"no default":     "[" + strings.Replace(whole, `"x"`, `""`, 1) + "]",
		"no example":     "[" + strings.Replace(whole, `"e"`, `""`, 1) + "]",
		"another field":  "[" + strings.Replace(whole, `"type"`, `"kind"`, 1) + "]",
		"no option":      "[]",
		"no list":        "{}",
		"nothing":        "",
	} {
		if page, err := render(strings.NewReader(list)); err == nil {
			t.Errorf("%s: accepted: %s", name, page)
		}
	}
}
