import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;

/**
 * Hive's metastore on Derby, for tests of Iceberg's catalog: java Metastore.java DATABASE [OPTION ...], the options being the metastore's.
 *
 * <p>DataNucleus makes the tables of a new database, but not those of locks, which a release's script makes. Iceberg commits under a lock.
 */
public final class Metastore {
    private Metastore() {}

    public static void main(String[] arguments) throws Throwable {
        if (!Files.exists(Path.of(arguments[0]))) {
            TxnDbUtil.prepDb(new HiveConf());
        }
        HiveMetaStore.main(Arrays.copyOfRange(arguments, 1, arguments.length));
    }
}
