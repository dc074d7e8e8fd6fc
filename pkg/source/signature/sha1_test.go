package signature

import (
	"crypto/rand"
	"crypto/sha512"
	"os"
	"testing"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
)

// withFormat signs as ssh-keygen did before it refused to: RSA with SHA-1.
func withFormat(t *testing.T, s signer, data []byte) []byte {
	t.Helper()
	pem, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.ParsePrivateKey(pem)
	if err != nil {
		t.Fatal(err)
	}
	hash := sha512.Sum512(data)
	// The signed data:
	// https://github.com/openssh/openssh-portable/blob/V_9_8_P1/PROTOCOL.sshsig
	blob := append([]byte("SSHSIG"), ssh.Marshal(struct{ Namespace, Reserved, HashAlgorithm, Hash string }{sshNamespace, "", "sha512", string(hash[:])})...)
	signature, err := key.(ssh.AlgorithmSigner).SignWithAlgorithm(rand.Reader, blob, ssh.KeyAlgoRSA)
	if err != nil {
		t.Fatal(err)
	}
	return sshsig.Armor(&sshsig.Signature{Version: 1, PublicKey: key.PublicKey(), Namespace: sshNamespace, HashAlgorithm: sshsig.HashSHA512, Signature: signature})
}
