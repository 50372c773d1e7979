package problem

import (
	"bufio"
	"errors"
	"io"
	"slices"
)

// Warning is something in a package that is legal and hardly ever meant.
type Warning struct {
	// Where is a path below the package's root.
	Where, Msg string
}

// Lint reads every test and says what an author should look at: byte order marks, which become a part of the first token;
// CRLF line ends, which programs that do not expect them stumble over; expected outputs without a token, which only a
// silent program matches; declared programs that are not there; settings that do nothing.
func (p *Problem) Lint() ([]Warning, error) {
	var list []Warning
	add := func(where, msg string) { list = append(list, Warning{Where: where, Msg: msg}) }
	if len(p.ExtraCompilationFiles) > 0 {
		add(ConfigName, "extraCompilationFiles is read and used for nothing: a judging program is one file")
	}
	if p.MaxScore() == 0 {
		add(ConfigName, "the groups are worth nothing: every score is 0 of 0")
	}
	for _, s := range slices.Concat(one(p.Checker), one(p.Interactor), p.ModelSolutions) {
		file, err := p.OpenFile(s.Path)
		if err != nil {
			add(s.Path, "declared in "+ConfigName+" and not in the package")
			continue
		}
		_ = file.Close()
	}
	for _, t := range p.Tests {
		for _, data := range []struct {
			path          string
			has, expected bool
		}{{t.InPath, t.HasIn, false}, {t.OutPath, t.HasOut, true}} {
			if !data.has {
				continue
			}
			faults, err := p.lintData(data.path, data.expected && p.Checker == nil && p.Interactor == nil)
			if err != nil {
				return nil, err
			}
			for _, fault := range faults {
				add(data.path, fault)
			}
		}
	}
	return list, nil
}

func one(s *Source) []Source {
	if s == nil {
		return nil
	}
	return []Source{*s}
}

func (p *Problem) lintData(name string, tokensWanted bool) ([]string, error) {
	file, err := p.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	reader := bufio.NewReaderSize(file, 1<<16)
	var faults []string
	if head, _ := reader.Peek(3); string(head) == "\ufeff" {
		faults = append(faults, "begins with a byte order mark, which is a part of the first token")
	}
	crlf, token, last := false, false, byte(0)
	for {
		c, err := reader.ReadByte()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, &Error{Code: CodeFile, Where: name, Msg: "a file of the package cannot be read", Err: err}
		}
		crlf = crlf || c == '\n' && last == '\r'
		token = token || c > ' '
		last = c
	}
	if crlf {
		faults = append(faults, "has CRLF line ends")
	}
	if tokensWanted && !token {
		faults = append(faults, "is empty: only a program that prints nothing passes this test")
	}
	return faults, nil
}
