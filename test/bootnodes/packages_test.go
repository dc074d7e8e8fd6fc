package bootnodes_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// containerdVersion is that of test/bootnodes/containerd/go.mod.
const containerdVersion = "2.2.9"

// signer signs repositories of packages.
type signer struct {
	entity  *openpgp.Entity
	armored string // its public key
}

func newSigner() (*signer, error) {
	entity, err := openpgp.NewEntity("Publisher", "of rehearsals", "publisher@example.com", &packet.Config{
		Algorithm: packet.PubKeyAlgoEdDSA, DefaultHash: crypto.SHA256,
	})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w, err := armor.Encode(&b, openpgp.PublicKeyType, nil)
	if err != nil {
		return nil, err
	}
	if err := entity.Serialize(w); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return &signer{entity: entity, armored: b.String()}, nil
}

func (s *signer) sign(text []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := clearsign.Encode(&b, s.entity.PrivateKey, &packet.Config{DefaultHash: crypto.SHA256})
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// repository is one of packages, in the form that apt reads:
// https://wiki.debian.org/DebianRepository/Format
type repository struct {
	host, root, suite, component string
	folder                       string // with the packages
	signer                       *signer
}

// offerPackages serves a repository.
func (p *publishers) offerPackages(ctx context.Context, r repository) error {
	paths, err := filepath.Glob(filepath.Join(r.folder, "*.deb"))
	if err != nil || len(paths) == 0 {
		return fmt.Errorf("%s holds %d packages: %w", r.folder, len(paths), err)
	}
	var index bytes.Buffer
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fields, err := exec.CommandContext(ctx, "dpkg-deb", "--field", path).Output()
		if err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		// Not the file's name: apt writes the colon of an epoch as %3a there.
		name := fmt.Sprintf("pool/%x.deb", sha256.Sum256(content))
		fmt.Fprintf(&index, "%s\nFilename: %s\nSize: %d\nSHA256: %x\n\n", bytes.TrimSpace(fields), name, len(content), sha256.Sum256(content))
		p.files[r.host+r.root+"/"+name] = content
	}
	const architecture = "amd64"
	packages := r.component + "/binary-" + architecture + "/Packages"
	release := fmt.Sprintf("Origin: rehearsal\nSuite: %[1]s\nCodename: %[1]s\nDate: %[2]s\nArchitectures: %[3]s\nComponents: %[4]s\nSHA256:\n %[5]x %[6]d %[7]s\n",
		r.suite, time.Now().UTC().Format(time.RFC1123), architecture, r.component, sha256.Sum256(index.Bytes()), index.Len(), packages)
	signed, err := r.signer.sign([]byte(release))
	if err != nil {
		return err
	}
	dist := r.host + r.root + "/dists/" + r.suite + "/"
	p.files[dist+"InRelease"], p.files[dist+packages] = signed, index.Bytes()
	return nil
}

// containerdProgram is where packages have containerd.
const containerdProgram = "/usr/bin/containerd"

// containerdUnit is what a package brings for systemd to start.
func containerdUnit() string {
	start := "notify"
	if !soak {
		start = "exec" // a script has no easy way to say that it is ready
	}
	return `[Unit]
Description=container runtime
After=network.target dbus.service

[Service]
Type=` + start + `
ExecStart=` + containerdProgram + `
Delegate=yes
KillMode=process
Restart=always

[Install]
WantedBy=multi-user.target
`
}

// containerdStandIn is what runs in place of a containerd that takes minutes to build.
const containerdStandIn = "#!/bin/sh\nexec sleep infinity\n"

// containerd is the program that packages bring.
func containerd() ([]byte, error) {
	if !soak {
		return []byte(containerdStandIn), nil
	}
	return os.ReadFile(os.Getenv(containerdEnv))
}

// containerdPackage makes a package like Docker's of containerd: with
// a configuration of its own, which is not to take the place of the profile's. It returns
// its folder.
func containerdPackage(ctx context.Context) (string, error) {
	const folder, content = "/run/containerd-package", "/run/containerd-content"
	files := map[string]struct {
		text string
		mode os.FileMode
	}{
		"DEBIAN/control": {"Package: containerd.io\nVersion: " + containerdVersion + "-1~rehearsal\nArchitecture: amd64\n" +
			"Maintainer: Publisher <publisher@example.com>\nDescription: container runtime, without what runs containers\n", 0o644},
		"DEBIAN/conffiles":                          {"/etc/containerd/config.toml\n", 0o644},
		"etc/containerd/config.toml":                {"version = 3\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n", 0o644},
		"usr/lib/systemd/system/containerd.service": {containerdUnit(), 0o644},
	}
	program, err := containerd()
	if err != nil {
		return "", err
	}
	for name, file := range files {
		path := filepath.Join(content, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, []byte(file.text), file.mode); err != nil {
			return "", err
		}
	}
	binary := filepath.Join(content, containerdProgram)
	if err := os.MkdirAll(filepath.Dir(binary), 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(binary, program, 0o755); err != nil {
		return "", err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, "dpkg-deb", "--build", "--root-owner-group", "-Znone", content, folder+"/containerd.io.deb").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("making the package of containerd: %w: %s", err, out)
	}
	return folder, os.RemoveAll(content)
}
