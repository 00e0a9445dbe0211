package holdfast

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/internal/testcluster"
)

// block is the n-th program of the README.
func block(t *testing.T, n int) string {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(readme), "```go\n")
	if len(blocks) <= n {
		t.Fatalf("the README has no program %d", n)
	}
	program, _, _ := strings.Cut(blocks[n], "```")
	return program
}

// inAModule runs a command on a file in a module of its own, made as the README says.
func inAModule(t *testing.T, file, text string, environment []string, command string) string {
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var output []byte
	for _, each := range []string{
		"go mod init example",
		"go mod edit -require=holdfast@v0.0.0 -replace=holdfast=" + here,
		command,
	} {
		words := strings.Fields(each)
		run := exec.Command(words[0], words[1:]...)
		run.Dir = folder
		run.Env = append(os.Environ(), environment...)
		if output, err = run.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", each, err, output)
		}
	}
	return string(output)
}

func TestTheProgramOfTheREADMERuns(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t, 1)
	environment := []string{"HOLDFAST_ENDPOINTS=" + strings.Join(c.Endpoints(), ",")}
	output := inAModule(t, "main.go", block(t, 1), environment, "go run .")
	if output != "written with a token above 0: true\n" {
		t.Errorf("%s", output)
	}
}

func TestTheTestOfTheREADMEPasses(t *testing.T) {
	t.Parallel()
	work := "\nfunc work(lock *holdfast.Lock) error { return lock.Check() }\n"
	output := inAModule(t, "work_test.go", block(t, 2)+work, nil, "go test -v .")
	if !strings.Contains(output, "--- PASS: TestWorkStopsWhenTheLockIsLost") {
		t.Errorf("%s", output)
	}
}
