package source_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/source"
)

func ExampleMirrors_Fetch() {
	mirrors := &source.Mirrors{Dir: "/var/cache/osm-gitops"}
	snapshot, err := mirrors.Fetch(context.Background(), source.Remote{
		URL:     "https://git.example.com/platform/osps.git",
		Branch:  "main",
		Path:    "profiles",
		Auth:    &source.BasicAuth{Username: "robot", Password: os.Getenv("TOKEN")},
		Key:     "kube-system/uid-of-the-secret/digest-of-the-secret",
		Timeout: time.Minute,
	})
	if errors.Is(err, source.ErrUnreachable) {
		log.Printf("trying again later: %v", err)
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	for _, file := range snapshot.Files {
		author, err := snapshot.LastChange(context.Background(), snapshot.Head, file.Path)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(file.Path, "was changed by", author.Name, "in", author.Commit)
	}
}

func ExampleDirectory_Read() {
	dir, err := os.MkdirTemp("", "profiles-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "ubuntu.yaml"), []byte("kind: OperatingSystemProfile\n"), 0o600); err != nil {
		log.Fatal(err)
	}
	snapshot, err := source.Directory{Root: dir}.Read(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(snapshot.Revision)
	fmt.Println(snapshot.Files[0].Path, snapshot.Files[0].Blob, snapshot.Files[0].Dirty)
	// Output:
	// sha256:6c270711082c5e6ecc2b2e335f8eb3cb8e64868afaa8fb7d0167a3d2203d8521
	// ubuntu.yaml 0abf50898ddb4852b770a43bd1af90864a47fff3 true
}

func ExampleParseCommit() {
	commit, err := source.ParseCommit("3f2a9c1")
	fmt.Printf("%q %v\n", commit, err)
	// Output: "" commit "3f2a9c1" is not a full SHA-1 of 40 lower-case hex digits
}
