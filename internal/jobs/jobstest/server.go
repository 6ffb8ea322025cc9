package jobstest

import (
	"encoding/json"
	"net"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// serverWord begins the arguments of a test binary that is to be a server.
const serverWord = "jobstest-server"

// Config is a server.
type Config struct {
	Name   string
	Store  string
	Port   int
	Routes int   // the port for other servers; 0: it is alone
	Others []int // theirs
	Max    int64 // bytes of the store
	Disk   int64 // bytes of the disk that it is on; 0: the host's
}

func (c *Config) options() *server.Options {
	o := &server.Options{ServerName: c.Name, Host: "127.0.0.1", Port: c.Port, JetStream: true, StoreDir: c.Store, NoSigs: true, NoLog: true,
		JetStreamMaxStore: c.Max, JetStreamMaxMemory: 64 << 20, PingInterval: 2 * time.Second, MaxPingsOut: 2}
	if c.Routes != 0 {
		o.Cluster = server.ClusterOpts{Name: "jobstest", Host: "127.0.0.1", Port: c.Routes, NoAdvertise: true, PingInterval: time.Second, MaxPingsOut: 2}
		for _, port := range c.Others {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: address(port)})
		}
	}
	return o
}

// Inside is a server in the test's own process. Its URL is that of clients.
func Inside(t testing.TB, change ...func(*server.Options)) string {
	t.Helper()
	return InsideServer(t, change...).ClientURL()
}

// InsideServer is one, too.
func InsideServer(t testing.TB, change ...func(*server.Options)) *server.Server {
	t.Helper()
	c := Config{Name: "inside", Store: t.TempDir(), Port: server.RANDOM_PORT, Max: 16 << 30}
	o := c.options()
	for _, f := range change {
		f(o)
	}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the server isn't ready")
	}
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	return s
}

// Client is a connection to a server that knows nothing of jobs.
func Client(t testing.TB, url string) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

// Main is a server, if this process was started as one; then it doesn't return. TestMain calls it.
func Main() {
	if len(os.Args) != 3 || os.Args[1] != serverWord {
		return
	}
	var c Config
	if err := json.Unmarshal([]byte(os.Args[2]), &c); err != nil {
		panic(err)
	}
	if c.Disk > 0 {
		if err := MountDisk(c.Store, c.Disk); err != nil {
			panic(err)
		}
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGHUP)
	for {
		s, err := server.NewServer(c.options())
		if err != nil {
			panic(err)
		}
		go s.Start()
		sig := <-told
		s.Shutdown()
		s.WaitForShutdown()
		if sig == syscall.SIGTERM {
			os.Exit(0)
		}
	}
}

// Ports are free ones.
func Ports(t testing.TB, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// On has a server inside listen on the port.
func (c *Config) On(o *server.Options) { o.Port = c.Port }
