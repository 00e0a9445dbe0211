package holdfast

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/internal/testcluster"
)

// The program of the README is built in a module of its own, as the README says, and runs.
func TestTheProgramOfTheREADMERuns(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t, 1)
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "```go\n")
	program, _, _ := strings.Cut(rest, "```")
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{
		"go mod init example",
		"go mod edit -require=holdfast@v0.0.0 -replace=holdfast=" + here,
		"go run .",
	} {
		words := strings.Fields(command)
		run := exec.Command(words[0], words[1:]...)
		run.Dir = folder
		run.Env = append(os.Environ(), "HOLDFAST_ENDPOINTS="+strings.Join(c.Endpoints(), ","))
		output, err := run.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, output)
		}
		if words[1] == "run" && string(output) != "written with a token above 0: true\n" {
			t.Errorf("%s", output)
		}
	}
}
