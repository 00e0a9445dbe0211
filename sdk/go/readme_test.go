package holdfast

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/internal/testcluster"
)

// block is the n-th program of a document.
func block(t *testing.T, document string, n int) string {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```go\n")
	if len(blocks) <= n {
		t.Fatalf("%s has no program %d", document, n)
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
	output := inAModule(t, "main.go", block(t, "README.md", 1), environment, "go run .")
	if output != "written with a token above 0: true\n" {
		t.Errorf("%s", output)
	}
}

func TestTheTestOfTheREADMEPasses(t *testing.T) {
	t.Parallel()
	work := "\nfunc work(lock *holdfast.Lock) error { return lock.Check() }\n"
	output := inAModule(t, "work_test.go", block(t, "README.md", 2)+work, nil, "go test -v .")
	if !strings.Contains(output, "--- PASS: TestWorkStopsWhenTheLockIsLost") {
		t.Errorf("%s", output)
	}
}

func TestTheCodeOfTheMigrationRuns(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t, 1)
	environment := []string{"HOLDFAST_ENDPOINTS=" + strings.Join(c.Endpoints(), ",")}
	program := `package main

import (
	"context"
	"fmt"
	"time"

	"holdfast"
)

func closeBilling(_ context.Context, token int64) error {
	fmt.Println("closed with a token above 0:", token > 0)
	return nil
}

func move(ctx context.Context, client *holdfast.Client) error {
` + block(t, "../../docs/guide/migrate.md", 2) + `}

func main() {
	options, _ := holdfast.OptionsFromEnv()
	client, err := holdfast.Open(options)
	if err == nil {
		err = move(context.Background(), client)
		client.Close()
	}
	if err != nil {
		panic(err)
	}
}
`
	output := inAModule(t, "main.go", program, environment, "go run .")
	if output != "closed with a token above 0: true\n" {
		t.Errorf("%s", output)
	}
}
