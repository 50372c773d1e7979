package problem_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evalhost/evalhost/services/internal/problem"
)

// The parser reads most of these, as something else than what YAML 1.2 says or than what the author meant.
func TestWhatTheParserWouldMisreadIsRefusedAtItsPlace(t *testing.T) {
	const start = "type: standard-io@1\nlimits: { timeMs: 1000, memoryBytes: 1000 }\n"
	const groups = "groups:\n  - group: 1\n    points: 5\n"
	for _, test := range []struct{ name, text, where, key string }{
		{"a colon without a space in braces", "groups: [ { group:1, points: 5 } ]\n", "3:18", "a space after the colon"},
		{"a limit without a space in braces", groups + "overrideLimits: { python: { timeMs:7 } }\n", "6:35", "a space after the colon"},
		{"a dash that is indented too far", groups + "languages:\n- cpp\n - python\n", "7:3", "goes on in the next line"},
		{"a comma missing in a list", groups + "languages: [cpp\n  python]\n", "6:13", "goes on in the next line"},
		{"a line indented too far", "groups:\n  - group: 1\n    points: 5\n     examples: true\n", "5:13", "goes on in the next line"},
		{"a list below null", groups + "calibration:\n  runner: null\n    - { group: 2, timeMs: 9 }\n", "7:11", "goes on in the next line"},
		{"a tab inside of a name", "groups: [ { group: 1, po\tints: 5 } ]\n", "3:23", "a tab in it"},
		{"a tab in the indentation", "groups:\n  \t- { group: 1, points: 5 }\n", "4:", "a tab"},
		{"a tab in a name of the author's", groups + "overrideLimits:\n  py\tpy3: { timeMs: 5 }\n", "7:3", "a tab in it"},
		{"a closing brace before a name", groups + "overrideLimits:\n }python:\n   timeMs: 5\n", "7:2", `begins with "}"`},
		{"a colon too many", groups + "checker: { source: c.cpp, language: cpp : }\n", "6:37", `with ":" in it`},
		{"a comma too many", "groups:\n  - {, group: 1, points: 5 }\n", "4:6", "a value before the comma"},
		{"two commas", "groups: [ { group: 1,, points: 5 } ]\n", "3:22", "a value before the comma"},
		{"a comma between groups too many", "groups: [ { group: 1, points: 5 }, , { group: 2, points: 7 } ]\n", "3:36", "a value before the comma"},
		{"an item below its dash", "groups:\n  -\n  { group: 1, points: 5 }\n  - { group: 2, points: 5 }\n", "5:3", "groups[0]: not YAML: expected it to be indented further than column 3"},
		{"a value below its name", "groups:\n[ { group: 1, points: 5 } ]\n", "4:1", "groups: not YAML: expected it to be indented"},
		{"a text below its name", groups + "checker:\n  language:\n  cpp\n  source: c.cpp\n", "8:", ""},
		{"a quote that is not closed", groups + "checker:\n  source: 'c.cpp\n  language: 'cpp'\n", "7:11", "is the closing quote missing"},
		{"a quoted text over two lines", groups + "checker:\n  language: cpp\n  source: \"c\n    .cpp\"\n", "8:11", "is the closing quote missing"},
		{"something behind a closing quote", groups + "languages: [ \"c\"d ]\n", "6:14", "nothing more after the closing quote"},
		{"a comment without a space", groups + "languages: [ c ]# all\n", "6:17", "a comment begins with # after a space"},
		{"a block text for a path", groups + "checker:\n  language: cpp\n  source: >\n    c.cpp\n", "8:11", "block texts (>)"},
		{"a block text for points", "groups:\n  - group: 1\n    points: |\n      5\n", "5:13", "block texts (|)"},
		{"NUL behind a number", "groups:\n  - group: 1\n    points: 5\x00\n", "5:14", `the character '\x00'`},
		{"NUL in a comment", groups + "# x\x00\n", "6:4", `the character '\x00'`},
		{"an escape character in a comment", groups + "# \x1b[2J\n", "6:3", `the character '\x1b'`},
		{"a wrong name behind a lone carriage return", groups + "languages: [ c ]\rlanguage: c\r", "7:1", "language: unknown member"},
		{"a wrong name behind letters of several bytes", groups + "calibration: { at: \"日本\", runnr: y }\n", "6:26", "calibration.runnr: unknown member"},
		{"a wrong value with a space behind it", groups + "checker: \n  source: 17 \n  language: cpp \n", "7:11", "checker.source: expected text, found 17"},
		{"a bracket too many", "groups: [ { group: 1, points: 5 } ]]\n", "3:36", "not YAML"},
		{"a comma missing between groups", "groups: [ { group: 1, points: 5 } { group: 2, points: 7 } ]\n", "3:35", "not YAML"},
		{"a comma missing between members", "groups: [ { group: 1 points: 5 } ]\n", "3:20", ""},
		{"something behind the groups", "groups: [ { group: 1, points: 5 } ] x\n", "3:37", "not YAML"},
		{"limits that are not indented", "groups:\n  - group: 1\n    points: 5\n    limits:\n    timeMs: 5\n", "7:5", "groups[0].timeMs: unknown member"},
		{"a group of nothing", "groups:\n- group: 1\n  points: 5\n-\n", "6:2", "groups[1]: expected an object"},
		{"a language that is no list", groups + "languages: cpp\n", "6:12", "languages: expected a list of texts"},
		{"a quoted name that repeats a plain one", groups + "overrideLimits: { python: {}, \"python\": {} }\n", "6:31", "the key occurs twice"},
		{"an escaped name that repeats a plain one", groups + "\"gr\\x6fups\": []\n", "6:1", "groups: the key occurs twice"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := problem.ParseConfig([]byte(start+test.text), problem.StandardIO)
			wantCode(t, err, problem.CodeConfigMalformed, "config.yml:"+test.where, test.key)
		})
	}
	_, err := problem.ParseConfig([]byte("--- "+start+groups), problem.StandardIO)
	wantCode(t, err, problem.CodeConfigMalformed, "config.yml:1:1", "--- on a line of its own")
}

func TestEveryHonestNotationOfOneConfigurationReadsTheSame(t *testing.T) {
	const block = "type: standard-io@1\nlimits:\n  timeMs: 5\n  memoryBytes: 7\nlanguages:\n- c\n- cpp\ngroups:\n- group: 1\n  points: 5\n" +
		"checker:\n  source: c.c\n  language: c\n"
	want, err := problem.ParseConfig([]byte(block), "")
	must(t, err)
	for name, text := range map[string]string{
		"JSON": `{"type":"standard-io@1","limits":{"timeMs":5,"memoryBytes":7},"languages":["c","cpp"],"groups":[{"group":1,"points":5}],` +
			`"checker":{"source":"c.c","language":"c"}}`,
		"JSON on lines": "{\n  \"type\": \"standard-io@1\",\n  \"limits\": {\"timeMs\": 5, \"memoryBytes\": 7},\n  \"languages\": [\n    \"c\",\n    \"cpp\"\n  ],\n" +
			"  \"groups\": [\n    {\"group\": 1, \"points\": 5}\n  ],\n  \"checker\": {\"source\": \"c.c\", \"language\": \"c\"}\n}\n",
		"commas at the end": "type: standard-io@1\nlimits: {timeMs: 5, memoryBytes: 7,}\nlanguages: [c, cpp, ]\ngroups: [ {group: 1, points: 5, }, ]\n" +
			"checker: {source: c.c, language: c}\n",
		"brackets at the margin": "type: standard-io@1\nlimits: {\n  timeMs: 5, memoryBytes: 7\n}\nlanguages: [ # two\n  c, # and\n  cpp\n]\n" +
			"groups:\n  [ { group: 1, points: 5 # five }\n    } ]\nchecker: {source: c.c, language: c}\n",
		"comments everywhere": "# x\n---\n# x\n\ntype: standard-io@1 # x\nlimits: # x\n  # x\n  timeMs: 5 # x\n\n# x\n  memoryBytes: 7\t# x\nlanguages:\n\n  # x\n  - c # x\n  \n" +
			"  - cpp\ngroups:\n# x\n  -\n    group: 1\n    # x\n    points:\n      5\n    limits:\nchecker:\n  source:   c.c \n  language: c \n  \n#x\n    # x\n...\n# x",
		"quotes and escapes": "'type': \"standard-io\\x401\"\n\"limits\": {\"timeMs\":5, 'memoryBytes' : 7}\nlanguages: [\"c\" , \"c\\u0070p\", ]\ngroups: [{\"group\":1,\"points\":5}]\n" +
			"checker: {\"source\":\"c\\u002ec\",\"language\":c}\n",
		"indented as a whole": "  type: standard-io@1\n  limits: { timeMs: 5, memoryBytes: 7 }\n  languages: [ c, cpp ]\n  groups:\n  - group: 1\n    points: 5\n  checker:\n      source: c.c\n      language: c\n",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := problem.ParseConfig([]byte(text), "")
			must(t, err)
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(problem.Config{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}
