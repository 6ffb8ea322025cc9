package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"

	"github.com/confine-run/confine/internal/attempts"
)

var webWords = []attempts.Try{
	{Name: "get", Args: 1, Do: get},         // URL [N]: N times at once, over as few connections as can be; ca.crt is trusted
	{Name: "h2c", Args: 1, Do: h2c},         // URL: HTTP/2 in the clear
	{Name: "tls", Args: 2, Do: talk(hello)}, // ADDRESS NAME: a handshake that asks for a name, or none; prints the certificate's
	{Name: "ws", Args: 2, Do: talk(ws)},     // ADDRESS HOST: an upgrade, and an echo
}

func authorities() (*x509.CertPool, error) {
	text, err := os.ReadFile("ca.crt")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", attempts.ErrBroken, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%w: ca.crt holds no certificate", attempts.ErrBroken)
	}
	return pool, nil
}

func get(args []string) error {
	pool, err := authorities()
	if err != nil {
		return err
	}
	n := int64(1)
	if len(args) > 1 {
		n = attempts.Number(args[1])
	}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool}}}
	var wait sync.WaitGroup
	errs := make(chan error, n)
	for range n {
		wait.Go(func() { errs <- printed(client, args[0]) })
	}
	wait.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func printed(client *http.Client, url string) error {
	r, err := client.Get(url)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err == nil {
		fmt.Printf("%s %s %s", r.Proto, r.Status, text)
	}
	return err
}

func h2c(args []string) error {
	only := &http.Transport{Protocols: new(http.Protocols)}
	only.Protocols.SetUnencryptedHTTP2(true)
	return printed(&http.Client{Timeout: patience, Transport: only}, args[0])
}

func hello(c *net.TCPConn, args []string) error { return handshake(c, args[1]) }

// handshake prints the name of the certificate, which is what is asked about, not whether it is right.
func handshake(c net.Conn, name string) error {
	secure := tls.Client(c, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err := secure.Handshake(); err != nil {
		return err
	}
	fmt.Println("certificate of", secure.ConnectionState().PeerCertificates[0].Subject.CommonName)
	return nil
}

func ws(c *net.TCPConn, args []string) error {
	fmt.Fprintf(c, "GET /ws HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", args[1])
	r := bufio.NewReader(c)
	answer, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("status %s", answer.Status)
	}
	// Bytes that are no HTTP, and some that would be.
	const text = "\x81\x05frame GET / HTTP/1.1\r\nHost: elsewhere\r\n\r\n"
	if _, err := io.WriteString(c, text); err != nil {
		return err
	}
	back := make([]byte, len(text))
	if _, err := io.ReadFull(r, back); err != nil {
		return err
	}
	if string(back) != text {
		return fmt.Errorf("%q came back", back)
	}
	fmt.Println("upgraded")
	return nil
}
