"""Local files in the JVM without a process per file.

Answer   Where Hadoop's native library is missing, as in the `pyspark` wheel, its local file system runs `chmod` for
         every file that it creates: eight processes per micro-batch of two shards, about five milliseconds each.
         `keep_in_process` gives the JVM's one local file system a lower half that sets the same permissions through
         Java.
Limits   For JVMs that this process started. Uses Janino, which Spark brings along; without it everything stays as it
         was.
Reading  `org.apache.hadoop.fs.RawLocalFileSystem.setPermission`.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

_CLASS = "eddyline.PlainLocalFiles"

_SOURCE = """
package eddyline;

public class PlainLocalFiles extends org.apache.hadoop.fs.RawLocalFileSystem {
    public void setPermission(org.apache.hadoop.fs.Path path, org.apache.hadoop.fs.permission.FsPermission permission)
            throws java.io.IOException {
        if (permission.getStickyBit()) {
            super.setPermission(path, permission);
            return;
        }
        java.nio.file.Files.setPosixFilePermissions(
            pathToFile(path).toPath(), java.nio.file.attribute.PosixFilePermissions.fromString(permission.toString()));
    }
}
"""


def keep_in_process(spark: SparkSession) -> bool:
    """Whether local files of this JVM get their permissions without a process from now on."""
    jvm = spark.sparkContext._jvm
    try:
        settings = spark._jsparkSession.sessionState().newHadoopConf()
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.cook(_SOURCE)
        constructor = compiler.getClassLoader().loadClass(_CLASS).getConstructor(None)
        plain = constructor.newInstance(None)
        plain.initialize(jvm.java.net.URI("file:///"), settings)
        # All of Spark shares this object: Hadoop keeps one file system per scheme and user.
        shared = jvm.org.apache.hadoop.fs.FileSystem.getLocal(settings)
        lower = jvm.java.lang.Class.forName("org.apache.hadoop.fs.FilterFileSystem").getDeclaredField("fs")
        lower.setAccessible(True)
        lower.set(shared, plain)
    except Exception:  # py4j hands over whatever the JVM threw; chmod works, it is only slow
        return False
    return True
