import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs command line tools of Apache Kafka in one JVM. A line of its input is a run: {"id", "main", "arguments", "stdin",
 * "seconds"}; a line of its output is how one ended: {"id", "code", "out", "err"}. Runs go on at the same time. A run that
 * takes longer than its seconds is interrupted and has no code. Ends with its input. Its argument is the
 * jar of the tools, which is not on the class path. Needs -Djava.security.manager=allow.
 */
public final class ToolRunner {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream ANSWERS = System.out;
    private static URL TOOLS;
    /** Threads that a tool starts write where it writes. */
    private static final InheritableThreadLocal<Run> CURRENT = new InheritableThreadLocal<>();

    private static final class Exited extends Error {
        Exited() {
            super(null, null, false, false);
        }
    }

    private static final class Run {
        final ByteArrayOutputStream out = new ByteArrayOutputStream();
        final ByteArrayOutputStream err = new ByteArrayOutputStream();
        final List<Runnable> hooks = new CopyOnWriteArrayList<>();
        final InputStream in;
        volatile Integer code;
        boolean ended;

        Run(byte[] stdin) {
            in = new ByteArrayInputStream(stdin);
        }

        /** What is written after the exit would not have been seen: the process would be gone. */
        synchronized void write(ByteArrayOutputStream stream, byte[] bytes, int from, int length) {
            if (!ended && code == null) {
                stream.write(bytes, from, length);
            }
        }

        void end(int status) {
            runHooks();
            synchronized (this) {
                if (code == null) {
                    code = status;
                }
            }
        }

        /** VerifiableProducer and its like print their last line in one. */
        void runHooks() {
            for (Runnable hook : hooks) {
                Thread thread = new Thread(hook);
                thread.setDaemon(true);
                thread.start();
                try {
                    thread.join(500);
                } catch (InterruptedException interrupted) {
                    Thread.currentThread().interrupt();
                }
            }
            hooks.clear();
        }
    }

    private static PrintStream captured(boolean isErr) {
        return new PrintStream(new OutputStream() {
            @Override
            public void write(int one) {
                write(new byte[] {(byte) one}, 0, 1);
            }

            @Override
            public void write(byte[] bytes, int from, int length) {
                Run run = CURRENT.get();
                if (run != null) {
                    run.write(isErr ? run.err : run.out, bytes, from, length);
                }
            }
        }, true, StandardCharsets.UTF_8);
    }

    private static InputStream given() {
        return new InputStream() {
            @Override
            public int read() throws IOException {
                return CURRENT.get().in.read();
            }

            @Override
            public int read(byte[] bytes, int from, int length) throws IOException {
                return CURRENT.get().in.read(bytes, from, length);
            }

            @Override
            public int available() throws IOException {
                return CURRENT.get().in.available();
            }
        };
    }

    /** argparse4j calls System.exit itself: only a security manager can stop that. */
    @SuppressWarnings("removal")
    private static final class NoExit extends SecurityManager {
        @Override
        public void checkExit(int status) {
            CURRENT.get().end(status);
            throw new Exited();
        }

        @Override
        public void checkPermission(java.security.Permission permission) {}

        @Override
        public void checkPermission(java.security.Permission permission, Object context) {}
    }

    @SuppressWarnings("removal")
    public static void main(String[] arguments) throws Exception {
        TOOLS = new File(arguments[0]).toURI().toURL();
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.setIn(given());
        System.setOut(captured(false));
        System.setErr(captured(true));
        System.setSecurityManager(new NoExit());
        Exit.Procedure exit = (status, message) -> {
            CURRENT.get().end(status);
            throw new Exited();
        };
        Exit.setExitProcedure(exit);
        Exit.setHaltProcedure(exit);
        Exit.setShutdownHookAdder((name, hook) -> CURRENT.get().hooks.add(hook));
        ExecutorService waiting = Executors.newCachedThreadPool();
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            JsonNode order = JSON.readTree(line);
            waiting.submit(() -> answer(order));
        }
        System.setSecurityManager(null);
        Runtime.getRuntime().halt(0);
    }

    private static void answer(JsonNode order) {
        ObjectNode answer = JSON.createObjectNode();
        answer.set("id", order.get("id"));
        try {
            Run run = performed(order);
            synchronized (run) {
                run.ended = true;
                answer.put("code", run.code);
                answer.put("out", run.out.toString(StandardCharsets.UTF_8));
                answer.put("err", run.err.toString(StandardCharsets.UTF_8));
            }
        } catch (Throwable problem) {
            answer.put("problem", problem.toString());
        }
        synchronized (ANSWERS) {
            ANSWERS.println(answer);
            ANSWERS.flush();
        }
    }

    private static Run performed(JsonNode order) throws Exception {
        Run run = new Run(order.get("stdin").asText().getBytes(StandardCharsets.UTF_8));
        String[] arguments = JSON.convertValue(order.get("arguments"), String[].class);
        // Each run has the tools' classes for itself: ConsoleConsumer counts its records in a static field.
        ClassLoader classes = new URLClassLoader(new URL[] {TOOLS}, ToolRunner.class.getClassLoader());
        Class<?> tool = Class.forName(order.get("main").asText(), true, classes);
        Thread thread = new Thread(() -> {
            CURRENT.set(run);
            Thread.currentThread().setContextClassLoader(classes);
            try {
                tool.getMethod("main", String[].class).invoke(null, (Object) arguments);
                run.end(0);
            } catch (InvocationTargetException thrown) {
                if (!(thrown.getCause() instanceof Exited)) {
                    thrown.getCause().printStackTrace();
                }
                run.end(1);
            } catch (ReflectiveOperationException wrong) {
                wrong.printStackTrace();
                run.end(1);
            }
        });
        thread.setDaemon(true);
        thread.start();
        thread.join(order.get("seconds").asLong() * 1000);
        if (thread.isAlive()) {
            // As with Ctrl-C: hooks run, and what they print counts.
            CURRENT.set(run);
            run.runHooks();
            thread.join(2000);
            thread.interrupt();
        }
        return run;
    }
}
