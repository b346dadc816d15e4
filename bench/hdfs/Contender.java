import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.EnumSet;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DFSOutputStream;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.client.HdfsDataOutputStream.SyncFlag;
import org.apache.hadoop.security.UserGroupInformation;

/**
 * Hadoop's own client (DFSOutputStream) under the same loads as bmq's: one process that stays, so that neither the start
 * of a JVM nor its compiler is measured.
 *
 * Arguments: NAMENODE:PORT CHECKSUM_CHUNK_BYTES BLOCK_BYTES. Then one command a line on standard input, answered by one line
 * of JSON: {"error": "..."} when it failed. bench/hdfs/worker.py understands the same commands:
 *   append PATH BYTES WARM_UP COUNT hflush|hsync   one append after the other, each waited for
 *   outstanding PATH BYTES WARM_UP COUNT WINDOW    as many threads as WINDOW, each writing and flushing on one stream
 *   stream PATH BYTES TOTAL                        writes of BYTES until TOTAL bytes are acknowledged
 *   read PATH LENGTH BYTES TOTAL                   a closed file of LENGTH from its front, BYTES at a time, up to TOTAL
 *   delete PATH
 *
 * With the environment's BMQ_HDFS__PRINCIPAL and BMQ_HDFS__KEYTAB it logs in by Kerberos; core-site.xml and hdfs-site.xml are
 * found in the class path.
 */
public final class Contender {
  private static final int REPLICATION = 3;
  private static final int CREATE_TRIES_MAX = 5;
  private static final OperatingSystemMXBean PROCESS =
      (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

  private final DistributedFileSystem fileSystem;
  private final int chunkBytes;
  private final long blockBytes;

  private Contender(String nameNode, int chunkBytes, long blockBytes) throws IOException {
    Configuration configuration = new Configuration();
    configuration.set("fs.defaultFS", "hdfs://" + nameNode);
    configuration.setInt("dfs.bytes-per-checksum", chunkBytes);
    configuration.set("dfs.checksum.type", "CRC32C");
    configuration.setBoolean("fs.hdfs.impl.disable.cache", true);
    // With three DataNodes there is nothing to replace a lost one by.
    configuration.set("dfs.client.block.write.replace-datanode-on-failure.policy", "NEVER");
    String principal = System.getenv("BMQ_HDFS__PRINCIPAL");
    if (principal != null) {
      UserGroupInformation.setConfiguration(configuration);
      UserGroupInformation.loginUserFromKeytab(principal, System.getenv("BMQ_HDFS__KEYTAB"));
    }
    this.fileSystem = (DistributedFileSystem) new Path("/").getFileSystem(configuration);
    this.chunkBytes = chunkBytes;
    this.blockBytes = blockBytes;
  }

  public static void main(String[] arguments) throws IOException {
    Contender contender =
        new Contender(arguments[0], Integer.parseInt(arguments[1]), Long.parseLong(arguments[2]));
    System.out.println("{\"ready\": true}");
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) {
      String answer;
      try {
        answer = contender.perform(line.trim().split(" "));
      } catch (Exception | Error failure) {
        answer = "{\"error\": " + quoted(failure.toString()) + "}";
      }
      System.out.println(answer);
      System.out.flush();
    }
    // Threads of the client library must not keep the process when nobody asks any more.
    System.exit(0);
  }

  private String perform(String[] words) throws Exception {
    switch (words[0]) {
      case "append":
        return append(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]), Integer.parseInt(words[4]),
            words[5].equals("hsync"));
      case "outstanding":
        return outstanding(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]),
            Integer.parseInt(words[4]), Integer.parseInt(words[5]));
      case "stream":
        return stream(words[1], Integer.parseInt(words[2]), Long.parseLong(words[3]));
      case "read":
        return read(words[1], Long.parseLong(words[2]), Integer.parseInt(words[3]), Long.parseLong(words[4]));
      case "delete":
        return "{\"deleted\": " + fileSystem.delete(new Path(words[1]), true) + "}";
      default:
        throw new IllegalArgumentException("no such command: " + words[0]);
    }
  }

  /** A file on as many DataNodes as there should be, with its first chunk written: else it would be an easier load. */
  private FSDataOutputStream create(String path) throws IOException {
    for (int tries = 0; tries < CREATE_TRIES_MAX; tries++) {
      FSDataOutputStream file = fileSystem.create(new Path(path), FsPermission.getFileDefault(),
          EnumSet.of(CreateFlag.CREATE), 4096, (short) REPLICATION, blockBytes, null, null);
      DFSOutputStream stream = (DFSOutputStream) file.getWrappedStream();
      stream.write(new byte[chunkBytes], 0, chunkBytes);
      stream.hflush();
      if (stream.getCurrentBlockReplication() == REPLICATION) {
        return file;
      }
      file.close();
      fileSystem.delete(new Path(path), false);
    }
    throw new IOException("the NameNode gave " + path + " too few DataNodes, " + CREATE_TRIES_MAX + " times");
  }

  private String append(String path, int bytes, int warmUp, int count, boolean isSync) throws IOException {
    byte[] data = data(bytes);
    long[] micros = new long[count];
    long cpu = 0;
    try (FSDataOutputStream file = create(path)) {
      DFSOutputStream stream = (DFSOutputStream) file.getWrappedStream();
      for (int number = -warmUp; number < count; number++) {
        if (number == 0) {
          cpu = PROCESS.getProcessCpuTime();
        }
        long began = System.nanoTime();
        stream.write(data, 0, bytes);
        if (isSync) {
          stream.hsync(EnumSet.noneOf(SyncFlag.class));
        } else {
          stream.hflush();
        }
        if (number >= 0) {
          micros[number] = (System.nanoTime() - began) / 1000;
        }
      }
      cpu = PROCESS.getProcessCpuTime() - cpu;
    }
    StringBuilder text = new StringBuilder("{\"cpu_s\": " + cpu / 1e9 + ", \"latencies_us\": [");
    for (int number = 0; number < count; number++) {
      text.append(number == 0 ? "" : ", ").append(micros[number]);
    }
    return text.append("]}").toString();
  }

  private String outstanding(String path, int bytes, int warmUp, int count, int window) throws Exception {
    byte[] data = data(bytes);
    try (FSDataOutputStream file = create(path)) {
      DFSOutputStream stream = (DFSOutputStream) file.getWrappedStream();
      together(stream, data, warmUp, window);
      long cpu = PROCESS.getProcessCpuTime();
      long began = System.nanoTime();
      together(stream, data, count, window);
      long nanos = System.nanoTime() - began;
      cpu = PROCESS.getProcessCpuTime() - cpu;
      return "{\"seconds\": " + nanos / 1e9 + ", \"cpu_s\": " + cpu / 1e9 + "}";
    }
  }

  /** Each thread writes and waits for the acknowledgement of what it wrote; a write is one step for the stream. */
  private static void together(DFSOutputStream stream, byte[] data, int count, int window) throws Exception {
    AtomicInteger left = new AtomicInteger(count);
    AtomicReference<Exception> failure = new AtomicReference<>();
    CountDownLatch done = new CountDownLatch(window);
    for (int number = 0; number < window; number++) {
      new Thread(() -> {
        try {
          while (failure.get() == null && left.getAndDecrement() > 0) {
            stream.write(data, 0, data.length);
            stream.hflush();
          }
        } catch (Exception error) {
          failure.compareAndSet(null, error);
        } finally {
          done.countDown();
        }
      }).start();
    }
    done.await();
    if (failure.get() != null) {
      throw failure.get();
    }
  }

  private String stream(String path, int bytes, long total) throws IOException {
    byte[] data = data(bytes);
    try (FSDataOutputStream file = create(path)) {
      OutputStream out = file.getWrappedStream();
      long cpu = PROCESS.getProcessCpuTime();
      long began = System.nanoTime();
      for (long sent = 0; sent < total; sent += bytes) {
        out.write(data, 0, (int) Math.min(bytes, total - sent));
      }
      ((DFSOutputStream) out).hflush();
      long nanos = System.nanoTime() - began;
      cpu = PROCESS.getProcessCpuTime() - cpu;
      return "{\"seconds\": " + nanos / 1e9 + ", \"cpu_s\": " + cpu / 1e9 + "}";
    }
  }

  /** As a stream, which is how Hadoop's client is quickest: the DataNode sends ahead. */
  private String read(String path, long length, int bytes, long total) throws IOException {
    Path file = new Path(path);
    if (fileSystem.getFileStatus(file).getLen() != length) {
      throw new IOException(path + " does not have " + length + " bytes");
    }
    byte[] data = new byte[bytes];
    StringBuilder latencies = new StringBuilder();
    long cpu = PROCESS.getProcessCpuTime();
    long began = System.nanoTime();
    try (FSDataInputStream in = fileSystem.open(file)) {
      for (long at = 0; at < total; at += bytes) {
        long each = System.nanoTime();
        in.readFully(data, 0, (int) Math.min(bytes, total - at));
        latencies.append(at == 0 ? "" : ", ").append((System.nanoTime() - each) / 1000);
      }
    }
    long nanos = System.nanoTime() - began;
    cpu = PROCESS.getProcessCpuTime() - cpu;
    return "{\"seconds\": " + nanos / 1e9 + ", \"cpu_s\": " + cpu / 1e9 + ", \"bytes\": " + total
        + ", \"latencies_us\": [" + latencies + "]}";
  }

  private static byte[] data(int bytes) {
    byte[] data = new byte[bytes];
    new Random(bytes).nextBytes(data);
    return data;
  }

  private static String quoted(String text) {
    StringBuilder quoted = new StringBuilder("\"");
    for (char character : text.toCharArray()) {
      if (character == '"' || character == '\\') {
        quoted.append('\\').append(character);
      } else {
        quoted.append(character < ' ' ? ' ' : character);
      }
    }
    return quoted.append('"').toString();
  }
}
